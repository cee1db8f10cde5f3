/** @module-tag ffmpeg */

import { type MediaRig, openMediaRig } from '@semblance/testkit/media/clips';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { FrameMemory } from './frame-memory.ts';

let rig: MediaRig;
beforeAll(async () => {
  rig = await openMediaRig();
});
afterAll(() => rig.close());

it('gives out the same memory again, of the size that is asked for', () => {
  const memory = new FrameMemory();
  const [small, large] = [memory.take(10), memory.take(20)];
  expect(small.buffer).toBeInstanceOf(SharedArrayBuffer);
  memory.give(small);
  memory.give(large);
  // Memory that is part of a larger one, or visible to one thread only, is not accepted.
  memory.give(new Uint8Array(10));
  memory.give(new Uint8Array(new SharedArrayBuffer(20), 10));
  expect(memory.take(10)).toBe(small);
  expect(memory.take(10)).not.toBe(small);
  expect(memory.take(20)).toBe(large);
});

it('carries a video through decoder and encoder in the memory of a few frames, the same as without it', async () => {
  const path = await rig.make('source.mp4', '-f lavfi -i testsrc2=s=320x240:r=25:d=4 -pix_fmt yuv420p');
  const info = await rig.media.probe(path, 'video', rig.signal);
  const { video } = info;
  if (!video) throw new Error('no video');
  const copy = async (to: string, memory?: FrameMemory): Promise<Set<ArrayBufferLike>> => {
    const buffers = new Set<ArrayBufferLike>();
    const more = memory ? { memory } : {};
    const options = { path: rig.path(to), width: video.width, height: video.height, frameRate: 25 };
    const writer = await rig.media.openWriter({
      ...options,
      color: video.color,
      signal: rig.signal,
      ...more,
    });
    for await (const frame of rig.media.decodeVideo(path, info, { signal: rig.signal, ...more })) {
      buffers.add(frame.data.buffer);
      await writer.write(frame);
    }
    await writer.finish(4_000_000);
    return buffers;
  };
  expect((await copy('own.mp4')).size).toBe(100);
  expect((await copy('shared.mp4', new FrameMemory())).size).toBeLessThan(20);
  const [own, shared] = [await rig.frames(rig.path('own.mp4')), await rig.frames(rig.path('shared.mp4'))];
  expect(shared.length).toBe(100);
  for (const [i, { data }] of shared.entries())
    expect(Buffer.compare(data, own[i]?.data as Uint8Array)).toBe(0);
});
