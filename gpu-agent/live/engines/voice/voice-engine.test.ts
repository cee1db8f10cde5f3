import { setTimeout as delay } from 'node:timers/promises';
import { silentLogger } from '@semblance/common/logging';
import { type Voice, voiceDefinition } from '@semblance/common/voices/voice';
import { BadMessageError } from '@semblance/engine-api/live-engine';
import { until } from '@semblance/testkit/gpu-agent/harness';
import { TONE_MODEL, toneModels } from '@semblance/testkit/live/tone-models';
import { shippedVoice } from '@semblance/testkit/live/voices';
import { VOWELS, vowel } from '@semblance/testkit/voice/sounds';
import { createVoiceConverter } from '@semblance/voice/converter';
import type { ModelVoices } from '@semblance/voice/rvc/model-voices';
import { RvcConverter } from '@semblance/voice/rvc/rvc-converter';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createVoiceEngine, type VoiceEngine, type VoiceEngineOptions } from './voice-engine.ts';

const RATE = 48_000;
const NEVER = new AbortController().signal;
const sound = vowel({ hz: 140, formants: VOWELS.a, seconds: 0.5 });
const bytes = () => new Uint8Array(sound.slice().buffer);

/** Runs before a model answers; tests replace it. */
const state = { before: async (_model: string, _signal: AbortSignal) => {} };
const models = toneModels((model, signal) => state.before(model, signal));

let engine: VoiceEngine;
let voice: Voice;
let crashes: number;
beforeEach(async () => {
  state.before = async () => {};
  crashes = 0;
  voice = { ...(await shippedVoice('calm-alto')).voice, model: TONE_MODEL };
});
afterEach(() => engine.close());

function create({ hungMs = 60_000, ...more }: { hungMs?: number } & Partial<VoiceEngineOptions> = {}): void {
  engine = createVoiceEngine({
    slots: 4,
    sampleRate: RATE,
    chunkFrames: 960,
    logger: silentLogger(),
    onChange() {},
    onCrash: () => crashes++,
    ...more,
    threads: { hungMs },
    reloadMs: 5,
  });
}

async function start(hungMs?: number): Promise<void> {
  create({ openModels: async () => models, ...(hungMs === undefined ? {} : { hungMs }) });
  await engine.warmUp(NEVER);
}

const open = (by: Voice) =>
  engine.open({
    settings: { voice: JSON.stringify(voiceDefinition(by)) },
    inputs: {},
    signal: NEVER,
    onFailed() {},
  });

describe('models on a device that is full for a moment', () => {
  const full = 'Failed to allocate memory for requested buffer of size 13111296';

  it('are used once they can be loaded, and voices without models are converted before', async () => {
    let tries = 0;
    const free = Promise.withResolvers<void>();
    create({
      openModels: async () => {
        if (tries++ === 0) throw new Error(full);
        await free.promise;
        return models;
      },
    });
    await engine.warmUp(NEVER);
    expect([engine.slots, engine.warming, engine.threadIds]).toEqual([4, false, []]);
    free.resolve();
    await until(() => engine.threadIds.length > 0 && !engine.warming, 'threads for the models');
    await (await open(voice)).close();
    expect(tries).toBe(2);
  });

  it('are closed, which frees their memory, and loaded again', async () => {
    let ends: ((reason: string) => void) | undefined;
    let [loads, closes] = [0, 0];
    create({
      openModels: async (_signal, onEnd) => {
        ends = onEnd;
        loads++;
        return { ...models, close: async () => void closes++ };
      },
    });
    await engine.warmUp(NEVER);
    for (const _run of [1, 2]) ends?.(full);
    await until(() => loads === 2, 'the models are loaded again');
    expect(closes).toBe(1);
    const stream = await open(voice);
    await until(() => engine.streams === 1, 'a stream through the models');
    await stream.close();
  });
});

describe('an agent without models', () => {
  it('has its slots once conversion is warm, and no threads', async () => {
    create();
    expect([engine.slots, engine.warming]).toEqual([0, true]);
    await engine.warmUp(NEVER);
    expect([engine.slots, engine.warming, engine.threadIds]).toEqual([4, false, []]);
  });

  it('is not warm when it is told to end before', async () => {
    create();
    const ending = new AbortController();
    const warm = engine.warmUp(ending.signal);
    ending.abort(new Error('the agent ends'));
    await expect(warm).rejects.toThrow('the agent ends');
    expect([engine.slots, engine.warming]).toEqual([0, true]);
  });

  it('converts by builtin, also where a voice names a model, in messages of any length and at any place', async () => {
    create();
    await engine.warmUp(NEVER);
    const stream = await open(voice);
    expect(engine.streams).toBe(0);
    const expected = createVoiceConverter({ sampleRate: RATE, voice }).push(sound);
    const [odd, all] = [new Uint8Array(1 + 2 * sound.length), bytes()];
    odd.set(all, 1);
    const parts = [all.subarray(0, 1_920), odd.subarray(1_921, 1_927), all.subarray(1_926)];
    const made: Uint8Array[] = [];
    for (const part of parts) made.push((await stream.transform(part)) ?? new Uint8Array(0));
    expect(Buffer.compare(Buffer.concat(made), new Uint8Array(expected.buffer))).toBe(0);
    await expect(stream.transform(new Uint8Array(3))).rejects.toThrow(BadMessageError);
  });

  it('lets other work in between the pieces of a long message', async () => {
    create();
    await engine.warmUp(NEVER);
    const stream = await open(voice);
    let between = 0;
    const other = () => {
      between++;
      next = setImmediate(other);
    };
    let next = setImmediate(other);
    await stream.transform(new Uint8Array(RATE * 2));
    clearImmediate(next);
    expect(between).toBeGreaterThanOrEqual(9);
  });
});

describe('slots with models', () => {
  it.each([
    [64, false, 4, []],
    [3, false, 3, []],
    [0, false, 1, [/^the voice models take so long/]],
    [3, true, 4, [/^SEMBLANCE_LIVE_VOICE_SLOTS is above what the voice models carry/]],
    [4, true, 4, []],
  ])(
    'that carry %i streams, given by the owner: %s, are %i',
    async (carries, slotsGiven, slots, warnings) => {
      const logger = silentLogger();
      const warn = vi.spyOn(logger, 'warn');
      create({ openModels: async () => toneModels(async () => {}, carries), logger, slotsGiven });
      await engine.warmUp(NEVER);
      expect(engine.slots).toBe(slots);
      expect(warn.mock.calls.map((call) => call.at(-1))).toEqual(
        warnings.map((text) => expect.stringMatching(text)),
      );
    },
  );
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

  it('says so where its voice asks for an index that its model has not', async () => {
    const logger = silentLogger();
    const warn = vi.spyOn(logger, 'warn');
    create({ openModels: async () => models, logger });
    await engine.warmUp(NEVER);
    await open({ ...voice, indexRate: 0 });
    expect(warn).not.toHaveBeenCalled();
    await open({ ...voice, indexRate: 0.5 });
    expect(warn).toHaveBeenCalledExactlyOnceWith(
      { voice: 'calm-alto', model: TONE_MODEL },
      expect.stringMatching(/^a voice asks for an index, and its model has none/),
    );
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
    // The thread still works after the abort.
    state.before = async () => {};
    expect(await (await open(voice)).transform(bytes())).toHaveLength(sound.length * 2);
  });
});
