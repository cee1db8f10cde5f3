import { setImmediate as turn } from 'node:timers/promises';
import type { EngineInterruptedError } from '@semblance/engine-api/engine';
import { PLAIN_THREAD, threadEntry } from '@semblance/testkit/live/video/plain-thread';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createLiveVideo } from './live-video.ts';
import type { LiveLook } from './types.ts';

const CHARACTER = { id: 'one', name: 'One', description: 'One', portrait: '/one.png' };
const ONE: LiveLook = { kind: 'character', name: 'one' };
const picture = (what: number) => Uint8Array.of(what);

let crashes: EngineInterruptedError[];
let live: ReturnType<typeof createLiveVideo>;

function create(slots: number, thread = PLAIN_THREAD, unwantedMs?: number) {
  crashes = [];
  live = createLiveVideo({
    slots,
    characters: new Map([['one', CHARACTER]]),
    entry: threadEntry(thread),
    ...(unwantedMs === undefined ? {} : { unwantedMs }),
    onCrash: (error) => crashes.push(error),
  });
}
beforeEach(() => create(2));
afterEach(() => live.close());

describe('streams and their threads', () => {
  it.each([
    ['exits', 1, 'exit status 3'],
    ['throws', 2, 'by an error of its own'],
  ])('a thread that %s takes its stream along, no other, and is replaced', async (_how, what, why) => {
    await live.warmUp();
    const ids = live.threadIds;
    const [dying, living] = [await live.open({ look: ONE }), await live.open({ look: ONE })];
    await expect(dying.transform(picture(what))).rejects.toMatchObject({
      code: 'engine_interrupted',
      message: `a thread of live video ended (${why})`,
    });
    await expect(dying.transform(picture(9))).rejects.toMatchObject({ code: 'engine_interrupted' });
    expect(await living.transform(picture(9))).toMatchObject({ swapped: true });
    expect(crashes).toHaveLength(1);
    await dying.close();
    const next = await live.open({ look: ONE });
    expect(await next.transform(picture(9))).toMatchObject({ swapped: true });
    expect(live.threadIds.filter((id) => ids.includes(id))).toHaveLength(1);
    expect(live.threadIds).toHaveLength(2);
  });

  it('a fault of the program in a thread that lives ends nothing', async () => {
    const stream = await live.open({ look: ONE });
    await expect(stream.transform(picture(3))).rejects.toThrow('a bug');
    expect(await stream.transform(picture(9))).toMatchObject({ swapped: true });
    expect(crashes).toEqual([]);
  });

  it('has no more streams than slots, and a slot again when one is closed', async () => {
    const opened = await Promise.all([live.open({ look: ONE }), live.open({ look: ONE })]);
    await expect(live.open({ look: ONE })).rejects.toMatchObject({ code: 'no_slot', retryable: true });
    await opened[0]?.close();
    await (await live.open({ look: ONE })).close();
  });

  it('a stream that is closed in the middle of a picture ends after it', async () => {
    const stream = await live.open({ look: ONE });
    const last = stream.transform(picture(4));
    await Promise.all([stream.close(), stream.close()]);
    expect(await last).toEqual({ picture: picture(4), faces: 0, swapped: false });
  });

  it('what cannot be opened leaves its slot free', async () => {
    create(1);
    await expect(live.open({ look: { kind: 'face', path: '/none' } })).rejects.toMatchObject({
      code: 'face_not_detected',
    });
    await expect(live.open({ look: { kind: 'character', name: 'two' } })).rejects.toMatchObject({
      code: 'unknown_character',
    });
    const gone = AbortSignal.abort(new Error('gone'));
    await expect(live.open({ look: ONE, signal: gone })).rejects.toThrow('gone');
    await (await live.open({ look: ONE })).close();
  });

  it('an opening that is given up is undone, and a signal later on closes the stream', async () => {
    // Long enough for a machine that stands still meanwhile.
    create(1, PLAIN_THREAD, 60_000);
    await live.warmUp();
    const abort = new AbortController();
    const opening = live.open({ look: { kind: 'face', path: '/slow' }, signal: abort.signal });
    await turn();
    abort.abort(new Error('no longer wanted'));
    await expect(opening).rejects.toThrow('no longer wanted');
    // The slot is free exactly when that is reported.
    const next = new AbortController();
    const stream = await live.open({ look: ONE, signal: next.signal });
    next.abort();
    await stream.close();
    await (await live.open({ look: ONE })).close();
    expect(crashes).toEqual([]);
  });

  it('an opening that is given up and does not come to its end costs its thread', async () => {
    create(1, PLAIN_THREAD, 100);
    await live.warmUp();
    const ids = live.threadIds;
    const abort = new AbortController();
    const opening = live.open({ look: { kind: 'face', path: '/hangs' }, signal: abort.signal });
    const failed = expect(opening).rejects.toThrow('no longer wanted');
    await turn();
    abort.abort(new Error('no longer wanted'));
    await failed;
    expect(crashes).toMatchObject([{ message: 'a thread of live video did not answer within 0.1 s' }]);
    expect(await (await live.open({ look: ONE })).transform(picture(9))).toMatchObject({ swapped: true });
    expect(live.threadIds).not.toEqual(ids);
  });

  it('takes a thread that is warm before one that is being replaced', async () => {
    create(
      2,
      PLAIN_THREAD.replace(
        "if (type === 'open')",
        "if (type === 'warm-up' && process.env.COLD) return; if (type === 'open')",
      ),
    );
    await live.warmUp();
    const dying = await live.open({ look: ONE });
    process.env.COLD = 'yes';
    await expect(dying.transform(picture(1))).rejects.toMatchObject({ code: 'engine_interrupted' });
    await dying.close();
    delete process.env.COLD;
    expect(await (await live.open({ look: ONE })).transform(picture(9))).toMatchObject({ swapped: true });
  });

  it('a thread that dies warming up is told, and tried again by whoever opens the next stream', async () => {
    create(
      1,
      `${PLAIN_THREAD.replace("if (type === 'open')", "if (type === 'warm-up' && !globalThis.ok) process.exit(4); if (type === 'open')")}`,
    );
    await expect(live.warmUp()).rejects.toMatchObject({ code: 'engine_interrupted' });
    await expect(live.open({ look: ONE })).rejects.toMatchObject({ code: 'engine_interrupted' });
    expect(crashes).toHaveLength(2);
    expect(live.threadIds).toEqual([]);
  });

  it('closing fails what is under way and opens nothing any more', async () => {
    const stream = await live.open({ look: ONE });
    const last = stream.transform(picture(4));
    const ended = expect(last).rejects.toMatchObject({ code: 'engine_interrupted' });
    await live.close();
    await ended;
    await expect(live.open({ look: ONE })).rejects.toMatchObject({ code: 'closed' });
    await stream.close();
    expect(crashes).toEqual([]);
  });
});
