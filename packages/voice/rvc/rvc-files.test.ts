import type { Voice } from '@semblance/common/voices/voice';
import { ivfFlatFile } from '@semblance/testkit/engine-onnx/faiss-file';
import type { GivenModel } from '@semblance/testkit/engine-onnx/model-dir-rig';
import {
  tinyContentvec,
  tinyContentvec500,
  tinyEcho,
  tinyTone,
  tinyWaveformRmvpe,
} from '@semblance/testkit/engine-onnx/tiny-voices';
import { levelDb, median, pitchOf } from '@semblance/testkit/voice/analysis';
import { convertAll, converterBy, ModelVoicesRig } from '@semblance/testkit/voice/model-voices-rig';
import { VOWELS, vowel } from '@semblance/testkit/voice/sounds';
import { afterAll, afterEach, describe, expect, it } from 'vitest';

const rig = new ModelVoicesRig();
afterEach(() => rig.closeModels());
afterAll(() => rig.directories.close());

describe('a voice in the layout of RVC', () => {
  const sound = vowel({ hz: 118, formants: VOWELS.a, seconds: 1 });
  const spoken = async (options: Record<string, unknown>, layout: 'rvc' | 'w-okada') => {
    const encoder = tinyContentvec500('contentvec_768');
    const models = await rig.open(
      encoder,
      tinyTone({ layout, width: 768, options: { speaker: 1, ...options } }),
    );
    const converter = converterBy(models, 'my-voice');
    return [await convertAll(converter, sound), await convertAll(converter, sound)];
  };

  it('gives the same bytes for the same sound, and without noise those of the other layout', async () => {
    const [once, again] = await spoken({}, 'rvc');
    expect(again).toEqual(once);
    const [plain] = await spoken({ noise: 0 }, 'rvc');
    expect(plain).not.toEqual(once);
    expect([plain]).toEqual((await spoken({}, 'w-okada')).slice(0, 1));
  });

  it('finds its pitch by a model that hears the sound itself', async () => {
    const models = await rig.open(tinyContentvec(), tinyTone({ layout: 'rvc' }), tinyWaveformRmvpe());
    // A level sound above the threshold is a pitch of 400 Hz for this model.
    const converter = converterBy(models, 'my-voice', { sampleRate: 16_000, transpose: -12 });
    const out = await convertAll(converter, new Int16Array(32_000).fill(0.4 * 32_768), 320);
    expect(median(pitchOf(out.subarray(16_000), 16_000)) / 200).toBeCloseTo(1, 2);
  });
});

describe('a voice with an index', () => {
  const sound = vowel({ hz: 118, formants: VOWELS.a, seconds: 0.6 });
  const echoed = async (given: Partial<Voice>, index?: GivenModel['index']) => {
    const models = await rig.open(tinyContentvec(), { ...tinyEcho(), ...(index && { index }) });
    return convertAll(converterBy(models, 'my-voice', given), sound);
  };

  it('speaks what its index holds, as far as its rate says', async () => {
    const silence = new Array<number>(256).fill(0);
    const index = { bytes: ivfFlatFile({ width: 256, centroids: [silence], lists: [[silence]] }) };
    const own = await echoed({});
    expect(await echoed({ indexRate: 0 }, index)).toEqual(own);
    // The only vector is silence: what it replaces is lost.
    expect(levelDb(await echoed({ indexRate: 0.5 }, index)) - levelDb(own)).toBeCloseTo(
      20 * Math.log10(0.5),
      1,
    );
    expect(levelDb(await echoed({ indexRate: 1 }, index))).toBeLessThan(-80);
  });

  it('is not opened when the index has values that are none', async () => {
    const faulty = new Array<number>(256).fill(Number.NaN);
    const index = { bytes: ivfFlatFile({ width: 256, centroids: [faulty], lists: [[faulty]] }) };
    await expect(echoed({}, index)).rejects.toThrow(
      'the index of my-voice cannot be read: has values that are not finite numbers',
    );
  });
});
