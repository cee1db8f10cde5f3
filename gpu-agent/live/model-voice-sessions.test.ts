import { voiceDefinition } from '@semblance/common/voices/voice';
import { ivfFlatFile } from '@semblance/testkit/engine-onnx/faiss-file';
import { ModelDirRig } from '@semblance/testkit/engine-onnx/model-dir-rig';
import { tinyContentvec, tinyEcho, tinyTone } from '@semblance/testkit/engine-onnx/tiny-voices';
import { type LiveRig, SETTINGS, startLiveRig } from '@semblance/testkit/live/live-rig';
import { shippedVoice } from '@semblance/testkit/live/voices';
import { VOWELS, vowel } from '@semblance/testkit/voice/sounds';
import { createVoiceConverter } from '@semblance/voice/converter';
import { afterEach, describe, expect, it } from 'vitest';

const RATE = 48_000;
const models = new ModelDirRig();
let rig: LiveRig | undefined;
afterEach(async () => {
  await rig?.close();
  rig = undefined;
  await models.close();
});

async function start(modelDir: string | undefined): Promise<LiveRig> {
  rig = await startLiveRig({
    settings: { ...SETTINGS, voiceRate: RATE },
    ...(modelDir === undefined ? {} : { onnx: { modelDir, providers: 'cpu', devices: '0' } }),
  });
  await rig.warm();
  return rig;
}

/** A second of a vowel, converted in messages of 20 ms. */
const sound = vowel({ hz: 140, formants: VOWELS.a, seconds: 1 });
async function through(by: LiveRig, voice: string): Promise<Int16Array> {
  const relay = by.relay(await by.claim({ settings: { voice } }));
  await relay.ready;
  const parts: Uint8Array[] = [];
  for (let at = 0; at < sound.length; at += RATE / 50) {
    const message = sound.slice(at, at + RATE / 50);
    relay.send(new Uint8Array(message.buffer));
    const back = await relay.next();
    expect(back.data.length).toBe(message.byteLength);
    parts.push(back.data);
  }
  await relay.close();
  const bytes = new Uint8Array(Buffer.concat(parts));
  return new Int16Array(bytes.buffer);
}

/** Returns the same sound as the builtin converter converts it. */
async function builtin() {
  const { voice } = await shippedVoice('calm-alto');
  return createVoiceConverter({ sampleRate: RATE, voice }).push(sound);
}

async function speakingBy(model: string): Promise<string> {
  const { voice } = await shippedVoice('calm-alto');
  return JSON.stringify(voiceDefinition({ ...voice, model }));
}

describe('a voice that names a model', () => {
  it('is spoken with by that model where the node has it, and by builtin for a name it has not', async () => {
    const by = await start(await models.make([tinyContentvec(), tinyTone()]));
    const byModel = await through(by, await speakingBy('my-voice'));
    const expected = await builtin();
    expect(byModel.length).toBe(expected.length);
    expect(byModel).not.toEqual(expected);
    // The model has a longer delay, so it is still silent when builtin already has sound.
    const peak = (samples: Int16Array) => samples.reduce((most, one) => Math.max(most, Math.abs(one)), 0);
    expect(peak(byModel.subarray(0, RATE * 0.1))).toBe(0);
    expect(peak(expected.subarray(0, RATE * 0.1))).toBeGreaterThan(1_000);
    expect(peak(byModel)).toBeGreaterThan(100);
    expect(await through(by, await speakingBy('another'))).toEqual(expected);
  });

  it('is spoken with by its index, which its thread shares', async () => {
    const silence = new Array<number>(256).fill(0);
    const index = { bytes: ivfFlatFile({ width: 256, centroids: [silence], lists: [[silence]] }) };
    const by = await start(await models.make([tinyContentvec(), { ...tinyEcho(), index }]));
    const loudest = async (indexRate: number) => {
      const { voice } = await shippedVoice('calm-alto');
      const definition = voiceDefinition({ ...voice, model: 'my-voice', indexRate });
      const out = await through(by, JSON.stringify(definition));
      return out.reduce((most, one) => Math.max(most, Math.abs(one)), 0);
    };
    expect(await loudest(0)).toBeGreaterThan(1_000);
    expect(await loudest(1)).toBe(0);
  });

  it('is spoken with by builtin on a node that has no models, and on one whose models have a fault', async () => {
    expect(await through(await start(undefined), await speakingBy('my-voice'))).toEqual(await builtin());
    await rig?.close();
    // This voice lacks its content encoder.
    const lacking = await models.make([tinyTone()]);
    expect(await through(await start(lacking), await speakingBy('my-voice'))).toEqual(await builtin());
  });
});
