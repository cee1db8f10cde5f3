import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { EngineInterruptedError } from '../../engines/engine.ts';
import { createLiveVideo } from './live-video.ts';
import type { LiveLook } from './types.ts';

/** A thread that speaks the protocol, without networks, and does what the first byte of a picture says. */
const THREAD = `
import { parentPort } from 'node:worker_threads';
import { threadStarted } from '${new URL('../../engines/models/thread-gate.ts', import.meta.url)}';
threadStarted();
let open = false;
parentPort.on('message', (message) => {
  const { type, id } = message;
  const done = (result) => parentPort.postMessage({ type: 'done', id, result });
  if (type === 'open') {
    if (open) throw new Error('two streams at once');
    if (message.face === '/slow') { open = true; return setTimeout(done, 50); }
    if (message.face === '/none')
      return parentPort.postMessage({ type: 'failed', id, error: { code: 'face_not_detected', message: 'none' } });
    open = true;
  }
  if (type === 'close') open = false;
  if (type !== 'picture') return done();
  const [what] = message.picture;
  if (what === 1) process.exit(3);
  if (what === 2) throw new Error('broken on purpose');
  if (what === 3) return parentPort.postMessage({ type: 'failed', id, error: { message: 'a bug' } });
  if (what === 4) return setTimeout(() => done({ faces: 0, swapped: false }), 50);
  done({ picture: message.picture, faces: 1, swapped: true });
});
`;

const CHARACTER = { id: 'one', name: 'One', description: 'One', portrait: '/one.png' };
const ONE: LiveLook = { kind: 'character', name: 'one' };
const picture = (what: number) => Uint8Array.of(what);

let crashes: EngineInterruptedError[];
let live: ReturnType<typeof createLiveVideo>;

function create(slots: number, thread = THREAD) {
  crashes = [];
  live = createLiveVideo({
    slots,
    characters: new Map([['one', CHARACTER]]),
    entry: new URL(`data:text/javascript,${encodeURIComponent(thread)}`),
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
    create(1);
    await live.warmUp();
    const abort = new AbortController();
    const opening = live.open({ look: { kind: 'face', path: '/slow' }, signal: abort.signal });
    abort.abort(new Error('no longer wanted'));
    await expect(opening).rejects.toThrow('no longer wanted');
    const next = new AbortController();
    const opened = async () => live.open({ look: ONE, signal: next.signal }).catch(() => undefined);
    await expect.poll(opened).toBeDefined();
    next.abort();
    await expect.poll(() => live.open({ look: ONE }).catch(() => undefined)).toBeDefined();
  });

  it('a thread that dies warming up is told, and tried again by whoever opens the next stream', async () => {
    create(
      1,
      `${THREAD.replace("if (type === 'open')", "if (type === 'warm-up' && !globalThis.ok) process.exit(4); if (type === 'open')")}`,
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
