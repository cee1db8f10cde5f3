/**
 * @module-tag ffmpeg
 * @module-tag speech
 */
import { readdir, readFile } from 'node:fs/promises';
import type { Engine, RenderResult } from '@semblance/engine-api/engine';
import { useOnnxRig } from '@semblance/testkit/engine-onnx/onnx-rig';
import { tinyKokoro } from '@semblance/testkit/engine-onnx/tiny-kokoro';
import { tinyPiper } from '@semblance/testkit/engine-onnx/tiny-piper';
import { describe, expect, it } from 'vitest';

const rig = useOnnxRig();

function render(
  engine: Engine,
  outputDir: string,
  parameters: Record<string, string>,
): Promise<RenderResult> {
  return engine.render({
    capability: 'avatar',
    inputs: { image: rig.image },
    parameters: { output_resolution_p: '240', ...parameters },
    outputDir,
    signal: AbortSignal.timeout(60_000),
    onProgress: () => undefined,
  });
}

describe('Avatar with an owner’s voice', () => {
  it('is spoken by it, the same for the same job', async () => {
    const engine = await rig.engine([tinyPiper({ name: 'en_US-tiny-low' })]);
    expect(engine.capabilities.map(({ capability }) => capability)).toEqual(['avatar']);
    const parameters = { script: 'Papa bought a map.', voice_id: 'en_US-tiny-low' };
    const [one, two] = [await rig.outputDir(), await rig.outputDir()];
    const first = await render(engine, one, parameters);
    expect(first.details).toMatchObject({ voice: 'en_US-tiny-low', speech: 'onnx en_US-tiny-low' });
    expect(await readdir(one)).toEqual(['output.mp4']);
    const second = await render(engine, two, parameters);
    expect((await readFile(second.outputPath)).equals(await readFile(first.outputPath))).toBe(true);
  });

  it('has the machine’s voices too, and takes the owner’s first', async () => {
    const engine = await rig.engine([
      tinyPiper({ name: 'high', hz: 220 }),
      tinyPiper({ name: 'low', hz: 100 }),
      tinyPiper({
        name: 'two',
        speakers: true,
        file: { num_speakers: 2, speaker_id_map: { ann: 0, bob: 1 }, language: { code: 'de_DE' } },
      }),
    ]);
    const voiceOf = async (parameters: Record<string, string>) =>
      (await render(engine, await rig.outputDir(), { script: 'Hello.', ...parameters })).details?.voice;
    // The portrait does not tell for sure, so the first of the manifest speaks.
    expect(await voiceOf({})).toBe('high');
    expect(await voiceOf({ voice_id: 'low' })).toBe('low');
    expect(await voiceOf({ voice_id: 'two/bob' })).toBe('two/bob');
    expect(await voiceOf({ voice_id: 'espeak-ng/en-gb' })).toBe('espeak-ng/en-gb');
    await expect(voiceOf({ voice_id: 'nobody' })).rejects.toThrow(
      'There is no voice "nobody" (voice_id). There are high (en-us), low (en-us), two (de-de; two/<speaker> for 2 speakers, such as ann), ',
    );
    expect(
      await engine.inspect?.({
        capability: 'avatar',
        inputs: { image: rig.image },
        parameters: {},
        signal: AbortSignal.timeout(60_000),
      }),
    ).toMatchObject({ faces: expect.anything() });
  });

  it('does not start with a voice whose texts nobody reads', async () => {
    await expect(rig.engine([tinyPiper({ file: { espeak: { voice: 'xx-none' } } })])).rejects.toThrow(
      'tiny (tiny.onnx): this espeak-ng has no voice xx-none',
    );
  });

  it('has a voice for each style of Kokoro whose language can be read', async () => {
    const engine = await rig.engine([tinyKokoro()]);
    const parameters = { script: 'Hello there.', voice_id: 'kokoro/bm_two' };
    const { details } = await render(engine, await rig.outputDir(), parameters);
    expect(details).toMatchObject({ voice: 'kokoro/bm_two', speech: 'onnx kokoro/bm_two' });
    await expect(
      render(engine, await rig.outputDir(), { ...parameters, voice_id: 'kokoro/jf_three' }),
    ).rejects.toThrow('There are kokoro/af_one (en-us), kokoro/bm_two (en-gb), slt');
    await expect(rig.engine([tinyKokoro({ styles: ['jf_alpha', 'zm_yun'] })])).rejects.toThrow(
      'kokoro (kokoro.onnx): none of its styles (jf_alpha, zm_yun) is of a language that can be read for it: en-us, en-gb, ',
    );
  });
});
