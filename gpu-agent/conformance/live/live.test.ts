import { silentLogger } from '@semblance/common/logging';
import { BadMessageError, type LiveEngine } from '@semblance/engine-api/live-engine';
import { loadCharacters } from '@semblance/engine-builtin/live-swap/characters';
import { createLiveVideo } from '@semblance/engine-builtin/live-swap/live-video';
import { parseBuiltinSettings } from '@semblance/engine-builtin/settings';
import { liveEngineConformance } from '@semblance/testkit/conformance/live-vitest';
import { startSidecarRig } from '@semblance/testkit/live/sidecar-rig';
import { shippedVoice } from '@semblance/testkit/live/voices';
import { describe, expect, it } from 'vitest';
import { createLiveSwapEngine } from '../../live/engines/swap/live-swap-engine.ts';
import { createVoiceEngine } from '../../live/engines/voice/voice-engine.ts';
import { liveConformanceChecks } from './live-checks.ts';
import { ofLiveEngine, SUITE_SOUND } from './live-subject.ts';

const quiet = { logger: silentLogger(), onChange() {}, onCrash() {} };
const voice = async () => ({ voice: (await shippedVoice('calm-alto')).json });

liveEngineConformance({
  title: 'the voice of builtin',
  start: ofLiveEngine(() => createVoiceEngine({ ...quiet, ...SUITE_SOUND, slots: 4 })),
  given: async () => ({ capability: 'voice', settings: await voice() }),
});

liveEngineConformance({
  title: 'the live swap of builtin',
  start: ofLiveEngine(async () => {
    const characters = await loadCharacters();
    return createLiveSwapEngine({
      ...quiet,
      characters: [...characters.keys()],
      createVideo: (onCrash) =>
        createLiveVideo({ slots: 1, characters, settings: parseBuiltinSettings(undefined), onCrash }),
    });
  }),
  // The machine of the tests may stand still.
  given: () => ({ capability: 'full-live-swap', settings: {}, answerMs: 60_000 }),
});

describe('the suite of live sessions', () => {
  /** Returns the first words of the checks that an engine of sound fails. */
  async function failing(
    change: (engine: LiveEngine) => Partial<LiveEngine>,
    answerMs: number,
  ): Promise<string[]> {
    const engine = createVoiceEngine({ ...quiet, ...SUITE_SOUND, slots: 2 });
    await engine.warmUp(new AbortController().signal);
    const changed = Object.create(engine, Object.getOwnPropertyDescriptors(change(engine))) as LiveEngine;
    const subject = { engine: changed, close: () => engine.close() };
    return failed(liveConformanceChecks(subject, { capability: 'voice', settings: await voice(), answerMs }));
  }
  async function failed(checks: ReturnType<typeof liveConformanceChecks>): Promise<string[]> {
    const names: string[] = [];
    for (const { name, skip, run } of checks)
      if (!skip) await run().catch(() => names.push(name.split(/[ ,]+/, 2).join(' ')));
    return names;
  }
  /** Returns a change that converts in another way. */
  const converting =
    (convert: (message: Uint8Array) => Promise<Uint8Array | undefined>) => (engine: LiveEngine) => ({
      async open(options: Parameters<LiveEngine['open']>[0]) {
        return { ...(await engine.open(options)), transform: convert };
      },
    });

  it.each<[string, (engine: LiveEngine) => Partial<LiveEngine>, string[]]>([
    ['keeps to it', () => ({}), []],
    ['has no slots', () => ({ slots: 0 }), ['says what']],
    [
      'loses sound',
      converting(async (message) =>
        message.length % 2 ? refuse() : message.subarray(0, message.length / 4),
      ),
      ['answers each', 'loses no', 'refuses what', 'carries as'],
    ],
    [
      'gives too much sound',
      converting(async (message) =>
        message.length % 2 ? refuse() : new Uint8Array(2 * message.length).fill(9),
      ),
      ['answers each', 'loses no', 'refuses what', 'carries as'],
    ],
    [
      'answers with silence',
      converting(async (message) => (message.length % 2 ? refuse() : new Uint8Array(message.length))),
      ['answers each', 'loses no', 'refuses what', 'carries as'],
    ],
    [
      'takes anything for sound',
      converting(async (message) => (message.length % 2 ? new Uint8Array(2) : message)),
      ['refuses what'],
    ],
    [
      'ends a session for what is no sound',
      converting(async (message) => {
        if (message.length % 2) throw new Error('no sound');
        return message;
      }),
      ['refuses what'],
    ],
    [
      'says another format than it has',
      (engine) => ({
        open: async (options) => ({ ...(await engine.open(options)), firstFrame: '{"sample_rate":16000}' }),
      }),
      ['opens a'],
    ],
  ])('finds out about an engine that %s', async (what, change, expected) => {
    // Where an answer never comes, the check has to wait in vain.
    const never = ['loses sound', 'takes anything for sound'].includes(what);
    expect(await failing(change, never ? 2_000 : 60_000)).toEqual(expected);
  });

  it('passes a sidecar that sends back what it gets', async () => {
    const { rig, engine, close } = await startSidecarRig('full-live-swap');
    await rig.warm();
    const subject = { engine, close: async () => {} };
    const checks = liveConformanceChecks(subject, {
      capability: 'full-live-swap',
      settings: {},
      answerMs: 60_000,
    });
    expect(await failed(checks)).toEqual([]);
    await close();
  });
});

function refuse(): never {
  throw new BadMessageError('half a sample');
}
