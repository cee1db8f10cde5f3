import { setImmediate as turn } from 'node:timers/promises';
import { silentLogger } from '@semblance/common/logging';
import type { LiveVideo } from '@semblance/engine-builtin/live-swap/types';
import { until } from '@semblance/testkit/gpu-agent/harness';
import { describe, expect, it } from 'vitest';
import { createLiveSwapEngine } from './live-swap-engine.ts';

/** Creates threads that become warm when the test says so. */
function rig() {
  const warmUps: PromiseWithResolvers<void>[] = [];
  const said: string[] = [];
  let crash = (_error: Error) => {};
  let restarts = 0;
  const video: LiveVideo = {
    slots: 2,
    warmUp: () => {
      const asked = Promise.withResolvers<void>();
      warmUps.push(asked);
      return asked.promise;
    },
    open: () => Promise.reject(new Error('not in this test')),
    close: async () => {},
  };
  const engine = createLiveSwapEngine({
    createVideo(onCrash) {
      crash = onCrash;
      return video;
    },
    characters: ['astronaut'],
    logger: silentLogger(),
    onChange: () => said.push(`${engine.slots} ${engine.warming}`),
    onCrash: () => restarts++,
    retryDelayMs: () => 1,
  });
  return { engine, warmUps, said, crash: () => crash(new Error('ended')), restarts: () => restarts };
}

describe('a picture that is not to be opened', () => {
  it('keeps the own face, and the first frame says why', async () => {
    const looks: unknown[] = [];
    const none = () => Promise.reject(new Error('not in this test'));
    const stream = { transform: none, change: none, close: async () => {} };
    const engine = createLiveSwapEngine({
      createVideo: () => ({
        slots: 1,
        warmUp: async () => {},
        async open({ look }) {
          looks.push(look);
          return stream;
        },
        close: async () => {},
      }),
      characters: ['astronaut'],
      logger: silentLogger(),
      onChange() {},
      onCrash() {},
    });
    const { firstFrame } = await engine.open({
      settings: { prompt: 'use api/uploads/face-1' },
      inputs: {},
      unusable: { face: 'It is no picture.' },
      signal: new AbortController().signal,
      onFailed() {},
    });
    expect(looks).toEqual([{ kind: 'own' }]);
    expect(JSON.parse(firstFrame)).toMatchObject({ note: 'Your own face is kept: It is no picture.' });
  });
});

describe('slots of live swaps', () => {
  it('are offered once threads are warm, and those of dead ones once their place is taken', async () => {
    const { engine, warmUps, said, crash, restarts } = rig();
    expect([engine.slots, engine.warming]).toEqual([0, true]);
    const warm = engine.warmUp(new AbortController().signal);
    expect([engine.slots, engine.warming]).toEqual([0, true]);
    warmUps[0]?.resolve();
    await warm;
    crash();
    expect([engine.slots, restarts()]).toEqual([1, 1]);
    // Another thread dies while the first is replaced. The engine offers neither before both are warm.
    crash();
    warmUps[1]?.resolve();
    await turn();
    expect([engine.slots, engine.warming]).toEqual([0, true]);
    warmUps[2]?.resolve();
    await turn();
    expect(said).toEqual(['2 false', '1 true', '0 true', '2 false']);
  });

  it('are tried again when threads do not get warm, until the engine ends', async () => {
    const { engine, warmUps } = rig();
    const warm = engine.warmUp(new AbortController().signal);
    warmUps[0]?.reject(new Error('no model'));
    await until(() => warmUps.length === 2, 'tried again');
    expect(engine.slots).toBe(0);
    warmUps[1]?.resolve();
    await warm;
    expect(engine.slots).toBe(2);
    const broken = rig();
    const never = broken.engine.warmUp(new AbortController().signal);
    await broken.engine.close();
    broken.warmUps[0]?.reject(new Error('closed'));
    await expect(never).rejects.toThrow('live swaps end');
    expect(broken.warmUps).toHaveLength(1);
  });
});
