import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { silentLogger } from '#common/logging.ts';
import { type Voice, voiceDefinition } from '#common/voices/voice.ts';
import type { FloatTensor } from '../../../engines/onnx/sessions/protocol.ts';
import { until } from '../../../testing/harness.ts';
import { shippedVoice } from '../../testing/voices.ts';
import type { ModelVoices } from '../../voice/rvc/model-voices.ts';
import { RvcConverter } from '../../voice/rvc/rvc-converter.ts';
import { VOWELS, vowel } from '../../voice/testing/sounds.ts';
import { createVoiceEngine, type VoiceEngine } from './voice-engine.ts';

const RATE = 48_000;
const NEVER = new AbortController().signal;
const sound = vowel({ hz: 140, formants: VOWELS.a, seconds: 0.5 });
const bytes = () => new Uint8Array(sound.slice().buffer);

/** Models that do what a test says: the voice says a tone. */
const state = { before: async (_model: string, _signal: AbortSignal) => {} };
const models: ModelVoices = {
  names: new Set(['my-voice']),
  of: () => ({
    voice: {
      ...{ name: 'my-voice', options: { sample_rate: RATE } },
      inputs: ['feats', 'p_len', 'pitch', 'pitchf', 'sid'].map((role) => ({ role, dims: [1] })),
    },
    content: { name: 'content', options: {}, inputs: [{ role: 'sound', dims: [1, 1] }] },
    pitch: undefined,
  }),
  async run(model, { pitchf }, signal): Promise<FloatTensor> {
    await state.before(model, signal);
    if (model === 'content') return { data: new Float32Array(32 * 4), dims: [1, 32, 4] };
    const hz = pitchf?.data[60] || 100;
    const data = Float32Array.from({ length: (64 * RATE) / 100 }, (_, i) =>
      Math.sin((2 * Math.PI * hz * i) / RATE),
    );
    return { data, dims: [1, data.length] };
  },
  close: async () => {},
};

let engine: VoiceEngine;
let voice: Voice;
let crashes: number;
beforeEach(async () => {
  state.before = async () => {};
  crashes = 0;
  voice = { ...(await shippedVoice('calm-alto')).voice, model: 'my-voice' };
});
afterEach(() => engine.close());

async function start(hungMs = 60_000): Promise<void> {
  engine = createVoiceEngine({
    ...{ slots: 4, sampleRate: RATE, chunkFrames: 960, logger: silentLogger(), onChange() {} },
    onCrash: () => crashes++,
    openModels: async () => models,
    threads: { hungMs },
  });
  await engine.warmUp(NEVER);
}

const open = (by: Voice) =>
  engine.open({
    settings: { voice: JSON.stringify(voiceDefinition(by)) },
    ...{ inputs: {}, signal: NEVER, onFailed() {} },
  });

describe('a session of a voice that is spoken with by models', () => {
  it('is carried by a voice thread, as any other, and sounds as its converter does', async () => {
    await start();
    const stream = await open(voice);
    expect(engine.streams).toBe(1);
    const out = await stream.transform(bytes());
    const run = (name: string, feeds: Parameters<ModelVoices['run']>[1]) => models.run(name, feeds, NEVER);
    const alone = new RvcConverter({ sampleRate: RATE, voice, models: models.of('my-voice'), run });
    const expected = await alone.push(sound);
    expect(Buffer.compare(out ?? Buffer.alloc(0), new Uint8Array(expected.buffer))).toBe(0);
    expect(Math.max(...expected)).toBeGreaterThan(10_000);
    await stream.close();
    expect(engine.streams).toBe(0);
  });

  it('waits for models that take their time, which is not taken for a thread that hangs', async () => {
    const hungMs = 3_000;
    await start(hungMs);
    const stream = await open(voice);
    const held = Promise.withResolvers<void>();
    let asked = 0;
    state.before = () => {
      asked++;
      return held.promise;
    };
    const threads = engine.threadIds;
    const converted = stream.transform(bytes());
    converted.catch(() => {});
    await until(() => asked > 0, 'a model was asked');
    await delay(2 * hungMs);
    held.resolve();
    expect(await converted).toHaveLength(sound.length * 2);
    expect([engine.threadIds, crashes]).toEqual([threads, 0]);
  });

  it('ends alone when a model fails', async () => {
    await start();
    const [stream, other] = [await open(voice), await open({ ...voice, model: 'another' })];
    state.before = async () => {
      throw new Error('values that are not finite numbers');
    };
    await expect(stream.transform(bytes())).rejects.toThrow('values that are not finite numbers');
    expect(await other.transform(bytes())).toHaveLength(sound.length * 2);
    expect(crashes).toBe(0);
  });

  it('asks nothing more of models once it was closed', async () => {
    await start();
    const stream = await open(voice);
    const signals: AbortSignal[] = [];
    state.before = (_model, signal) => {
      signals.push(signal);
      return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
    };
    const cut = expect(stream.transform(bytes())).rejects.toThrow('the stream was closed');
    await until(() => signals.length > 0, 'a model was asked');
    await stream.close();
    await cut;
    expect(signals.every(({ aborted }) => aborted)).toBe(true);
    // The thread carries on.
    state.before = async () => {};
    expect(await (await open(voice)).transform(bytes())).toHaveLength(sound.length * 2);
  });
});
