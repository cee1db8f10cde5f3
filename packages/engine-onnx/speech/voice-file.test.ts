import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type GivenModel, ModelDirRig } from '@semblance/testkit/engine-onnx/model-dir-rig';
import { npzOf, tinyKokoro } from '@semblance/testkit/engine-onnx/tiny-kokoro';
import { piperFile, tinyPiper } from '@semblance/testkit/engine-onnx/tiny-piper';
import { afterAll, describe, expect, it } from 'vitest';
import { openModelDir } from '../model-dir.ts';

const rig = new ModelDirRig();
afterAll(() => rig.close());

/** @returns the faults of a directory with one voice */
async function faults(changes?: Record<string, unknown>, speakers = false): Promise<readonly string[]> {
  const { beside, ...model } = tinyPiper({ speakers, file: changes ?? {} });
  const directory = await rig.make([changes ? { ...model, beside } : model]);
  return (await openModelDir(directory)).faults;
}

describe('the file beside a voice', () => {
  it('says how the voice reads', async () => {
    const directory = await rig.make([tinyPiper()]);
    const { models, faults } = await openModelDir(directory);
    expect(faults).toEqual([]);
    expect(models[0]?.speech).toMatchObject({
      kind: 'piper',
      file: {
        audio: { sample_rate: 22_050 },
        espeak: { voice: 'en-us' },
        inference: { noise_scale: 0.667, length_scale: 1, noise_w: 0.8 },
        phoneme_id_map: { _: [0], '^': [1], $: [2] },
      },
    });
    expect(models[0]?.outputs.map(({ role }) => role)).toEqual(['output', 'durations']);
  });

  it.each([
    [undefined, 'there is no tiny.onnx.json beside it, which says how the voice reads'],
    [{ audio: {} }, 'tiny.onnx.json: audio.sample_rate: Invalid input: expected number, received undefined'],
    [
      { phoneme_type: 'pinyin' },
      'tiny.onnx.json: phoneme_type: must be espeak: no other way from texts to phonemes is known here',
    ],
    [{ espeak: { voice: '-x ../y' } }, 'tiny.onnx.json: espeak.voice: must be a voice of espeak-ng'],
    [{ phoneme_id_map: { a: [1] } }, 'tiny.onnx.json: phoneme_id_map: must have _, ^ and $'],
    [{ num_speakers: 2 }, 'tiny.onnx.json: num_speakers: is 2, and the model has no input "sid"'],
  ])('%j is refused', async (changes, message) => {
    expect(await faults(changes)).toEqual([`tiny (tiny.onnx): ${message}`]);
  });

  it('names several speakers where the model takes one of them', async () => {
    const speakers = { num_speakers: 2, speaker_id_map: { ann: 0, bob: 1 } };
    expect(await faults(speakers, true)).toEqual([]);
    expect(await faults({}, true)).toEqual([
      'tiny (tiny.onnx): tiny.onnx.json: num_speakers: is 1, and the model has an input "sid"',
    ]);
  });

  it('is refused where it is no JSON', async () => {
    const directory = await rig.make([tinyPiper()]);
    await writeFile(join(directory, 'tiny.onnx.json'), JSON.stringify(piperFile()).slice(0, -1));
    expect((await openModelDir(directory)).faults[0]).toMatch(
      /^tiny \(tiny\.onnx\): tiny\.onnx\.json: cannot be read: /,
    );
  });
});

describe('the files beside Kokoro', () => {
  async function check(changes: Partial<GivenModel>): Promise<readonly string[]> {
    return (await openModelDir(await rig.make([{ ...tinyKokoro(), ...changes }]))).faults;
  }

  it('have its phonemes and styles', async () => {
    const { models, faults } = await openModelDir(await rig.make([tinyKokoro()]));
    expect(faults).toEqual([]);
    const [speech] = models.map((model) => model.speech);
    if (speech?.kind !== 'kokoro') throw new Error('not a Kokoro');
    expect([...speech.styles.keys()]).toEqual(['af_one', 'bm_two', 'jf_three']);
    expect(speech.vocabulary).toMatchObject({ ' ': 1, '.': 2 });
  });

  it.each([
    [{ beside: undefined }, 'there is no kokoro.onnx.json beside it, which says how the voice reads'],
    [{ beside: { vocab: {} } }, 'kokoro.onnx.json: vocab: is empty'],
    [{ npz: undefined as never }, 'there is no kokoro.onnx.npz beside it, which has its styles'],
    [{ npz: Buffer.from('PK, but not really so') }, 'kokoro.onnx.npz: is no .npz file'],
    [{ npz: npzOf({}) }, 'kokoro.onnx.npz: has no style'],
    [
      { npz: npzOf({ af_one: { shape: [2, 1, 3], data: new Float32Array(6) } }) },
      'kokoro.onnx.npz: af_one: expected [N, 1, 256], found [2, 1, 3]',
    ],
  ])('%# are refused: %s', async (changes, message) => {
    expect(await check(changes)).toEqual([`kokoro (kokoro.onnx): ${message}`]);
  });
});
