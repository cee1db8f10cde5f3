import { figurePerson, figurePoints, STANDING } from '@semblance/testkit/engine-builtin/identity-swap/figure';
import { afterEach, describe, expect, it } from 'vitest';
import type { Character } from './character.ts';
import { SceneThreads, SceneVideo } from './scene-threads.ts';

const [W, H] = [64, 48];
const VIDEO = { width: W, height: H, color: { range: 'tv', space: 'bt709' } } as const;

let threads: SceneThreads | undefined;
afterEach(() => threads?.close());

const stance = { ...STANDING, x: 30, y: 46, height: 40 };
const character: Character = {
  picture: { width: W, height: H, channels: 3, data: new Uint8Array(W * H * 3) },
  person: figurePerson(figurePoints(stance), new Uint8Array(W * H), W, H),
};

function frame(index: number) {
  const data = new Uint8Array(new SharedArrayBuffer((W * H * 3) / 2)).fill(100 + index);
  return { index, ptsUs: index * 40_000, width: W, height: H, data };
}

describe('a video that is drawn in another thread', () => {
  it('writes all its frames in their order, over cuts and to the end', async () => {
    threads = new SceneThreads();
    const written: number[] = [];
    const writer = { write: async ({ ptsUs }: { ptsUs: number }) => void written.push(ptsUs / 40_000) };
    const { signal } = new AbortController();
    const video = new SceneVideo(character, VIDEO, { threads, writer, signal });
    // Nobody is in these frames, so they pass unchanged; those of the longer shot pass while others arrive.
    for (let i = 0; i < 70; i++) {
      if (i === 3 || i === 60) await video.cut();
      await video.add(frame(i), undefined, undefined);
    }
    await video.finish();
    video.close();
    expect(written).toEqual(Array.from({ length: 70 }, (_, i) => i));
    expect(video).toMatchObject({ written: 70, drawn: 0, faces: 0 });
  });

  it('ends when it is cancelled, though the thread is busy and never answers', async () => {
    class Busy extends SceneThreads {
      override ask(): Promise<never> {
        return new Promise(() => undefined);
      }
    }
    threads = new Busy();
    const abort = new AbortController();
    const writer = { write: async () => undefined };
    const video = new SceneVideo(character, VIDEO, { threads, writer, signal: abort.signal });
    await video.add(frame(0), undefined, undefined);
    const waiting = video.finish();
    abort.abort(new Error('not any more'));
    await expect(waiting).rejects.toThrow('not any more');
    await expect(video.cut()).rejects.toThrow('not any more');
    video.close();
  });

  it('fails when the thread ends', async () => {
    threads = new SceneThreads();
    const writer = { write: async () => undefined };
    const { signal } = new AbortController();
    const video = new SceneVideo(character, VIDEO, { threads, writer, signal });
    for (const index of [0, 1, 2]) await video.add(frame(index), undefined, undefined);
    await threads.close();
    await expect(video.finish()).rejects.toThrow(/thread/);
    video.close();
  });

  it('takes no frame that only this thread can see', async () => {
    threads = new SceneThreads();
    const writer = { write: async () => undefined };
    const { signal } = new AbortController();
    const video = new SceneVideo(character, VIDEO, { threads, writer, signal });
    const data = new Uint8Array(frame(0).data);
    await expect(video.add({ ...frame(0), data }, undefined, undefined)).rejects.toThrow(TypeError);
    video.close();
  });
});
