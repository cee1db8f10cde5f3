import { status } from '@grpc/grpc-js';
import { silentLogger } from '@semblance/common/logging';
import { createLiveVideo } from '@semblance/engine-builtin/live-swap/live-video';
import { until } from '@semblance/testkit/gpu-agent/harness';
import { type LiveRig, startLiveRig } from '@semblance/testkit/live/live-rig';
import { threadEntry } from '@semblance/testkit/live/video/plain-thread';
import { afterEach, describe, expect, it } from 'vitest';
import { createLiveSwapEngine } from './engines/swap/live-swap-engine.ts';

const CAPABILITY = 'full-live-swap';
const PICTURE = Uint8Array.of(9, 9, 9);
/** The path of each portrait tells the threads what to do. */
const CHARACTERS = ['plain', 'slow', 'hangs'];
/** Time limit, in ms; long, so that no thread is given up after a standstill. */
const PATIENT_MS = 60_000;

let rig: LiveRig;

afterEach(() => rig.close());

/** @param unwantedMs longest time that a stream nobody wants may take to open */
async function start(unwantedMs: number): Promise<void> {
  const engine = createLiveSwapEngine({
    createVideo: (onCrash) =>
      createLiveVideo({
        slots: 1,
        characters: new Map(
          CHARACTERS.map((id) => [id, { id, name: id, description: id, portrait: `/${id}` }]),
        ),
        entry: threadEntry(),
        unwantedMs,
        onCrash,
      }),
    characters: CHARACTERS,
    logger: silentLogger(),
    onChange: () => {},
    onCrash: () => {},
  });
  rig = await startLiveRig({ engines: [engine] });
  await rig.warm();
}

const claim = (character: string) =>
  rig.claim({ capability: CAPABILITY, settings: { prompt: `character: ${character}` } });

/** Checks that a claimed session carries media. */
async function carries(id: string): Promise<void> {
  const relay = rig.relay(id);
  await relay.ready;
  relay.send(PICTURE);
  expect((await relay.next()).data).toEqual(Buffer.from(PICTURE));
  await relay.close();
}

/** Claims until it gets the slot. Every refusal before must say that the slot is taken. */
async function claimed(): Promise<string> {
  for (;;) {
    try {
      return await claim('plain');
    } catch (error) {
      expect(error).toMatchObject({ code: status.RESOURCE_EXHAUSTED });
    }
  }
}

describe('a live swap that ends while its stream is opened', () => {
  it('has its slot until its thread can take the next one, whose stream is opened', async () => {
    await start(PATIENT_MS);
    const first = await claim('slow');
    const watch = rig.watch();
    await watch.first;
    let answered = false;
    const ending = rig.end(first).then(() => {
      answered = true;
    });
    const next = await claimed();
    await carries(next);
    await ending;
    await until(() => watch.of(first) !== undefined, 'told of its end');
    watch.cancel();
    expect(answered).toBe(true);
  });

  it('has freed its slot when its end is answered', async () => {
    await start(PATIENT_MS);
    for (let round = 0; round < 3; round++) {
      await rig.end(await claim('slow'));
      expect(rig.live.sessions.held(CAPABILITY)).toBe(0);
      await carries(await claim('plain'));
    }
  });

  it('is no longer waited for than its thread is given, whose slot is offered again when it is replaced', async () => {
    const unwantedMs = 500;
    await start(unwantedMs);
    const began = performance.now();
    await rig.end(await claim('hangs'));
    expect(performance.now() - began).toBeGreaterThanOrEqual(unwantedMs - 1);
    await carries(await claimed());
  });
});
