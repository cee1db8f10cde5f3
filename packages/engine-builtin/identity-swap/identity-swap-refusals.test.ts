/** @module-tag ffmpeg */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { room, walker, writeClip } from '@semblance/testkit/engine-builtin/identity-swap/clips';
import {
  CLIP_HEIGHT,
  CLIP_WIDTH,
  type IdentityRig,
  openIdentityRig,
} from '@semblance/testkit/engine-builtin/identity-swap/identity-rig';
import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/engine-builtin/swap-rig';
import type { FaceFinder } from '@semblance/vision/face-finder';
import type { PersonFinder } from '@semblance/vision/person';
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { identitySwap } from './identity-swap.ts';

const [W, H] = [CLIP_WIDTH, CLIP_HEIGHT];

let rig: IdentityRig;
beforeAll(async () => {
  rig = await openIdentityRig();
}, 120_000);
afterAll(() => rig.close());

describe('Identity Swap refuses', { timeout: 120_000 }, () => {
  it('says in which of its inputs nobody is to be seen', async () => {
    const video = rig.media.path('nobody.mp4');
    await writeClip(rig.media.media, { ...rig.walking(12), stance: () => undefined }, video);
    const empty = join(rig.directory, 'room.png');
    await sharp(room(400, 300), { raw: { width: 400, height: 300, channels: 3 } })
      .png()
      .toFile(empty);
    const none = { code: 'face_not_detected' };
    await expect(rig.swap(video, await rig.redCharacter())).rejects.toMatchObject({
      ...none,
      message: expect.stringContaining('video_key'),
    });
    const walk = rig.media.path('refusal.mp4');
    await writeClip(rig.media.media, rig.walking(12), walk);
    await expect(rig.swap(walk, empty)).rejects.toMatchObject({
      ...none,
      message: expect.stringContaining('character_key'),
    });
    expect(await readdir(rig.lastOutput)).toEqual([]);
  });

  it('refuses an animal in which a body was found, before anything is written', async () => {
    const video = rig.media.path('animal.mp4');
    await writeClip(rig.media.media, { ...rig.walking(12), height: 2 * H, stance: walker(W, 2 * H) }, video);
    const faces = { findUpright: async () => [], look: async () => ({ faces: [], left: [] }) };
    /** A rig.finder whose bodies stay in a character picture and move in a video, as those of animals do. */
    const people: PersonFinder = {
      find: (picture, before) => rig.finder.find(picture, before),
      unrest: async (picture) => (picture.width === W ? 0.1 : 0),
      close: async () => undefined,
    };
    const outputDir = await rig.outputDir();
    const job = { video, character: await rig.redCharacter(), resolution: '1k', outputDir } as const;
    const swapped = identitySwap(job, rig.media.media, {
      people,
      finder: faces as unknown as FaceFinder,
      checkpoint: () => undefined,
      signal: new AbortController().signal,
      onProgress: () => undefined,
    });
    await expect(swapped).rejects.toMatchObject({
      code: 'face_not_detected',
      message: expect.stringMatching(/video_key.* is no person/),
    });
    expect(await readdir(outputDir)).toEqual([]);
  });

  it('refuses a head that would be a blur, before it draws', async () => {
    const video = await rig.media.make(
      'close.mp4',
      `-loop 1 -i ${ASTRONAUT} -vf crop=256:256:96:0,scale=960:960,fps=15 -t 0.4`,
    );
    const small = join(rig.directory, 'small.png');
    await sharp(ADMIRAL).resize({ height: 150 }).toFile(small);
    const done: number[] = [];
    await expect(
      rig.swap(video, small, { onProgress: (fraction) => void done.push(fraction) }),
    ).rejects.toMatchObject({
      code: 'processing_failed',
      message: expect.stringMatching(/character_key.*too small for this video/),
    });
    expect(Math.max(...done)).toBeLessThan(0.1);
    expect(await readdir(rig.lastOutput)).toEqual([]);
  });

  it('refuses a head for a person who shows no face', async () => {
    const video = rig.media.path('faceless.mp4');
    const skin = [196, 150, 128];
    const blank = { ...rig.astronaut, data: rig.astronaut.data.map((value, i) => skin[i % 4] ?? value) };
    await writeClip(rig.media.media, { ...rig.walking(12), head: blank }, video);
    await expect(rig.swap(video, ADMIRAL)).rejects.toMatchObject({
      code: 'face_not_detected',
      message: expect.stringContaining('video_key'),
      findings: { hints: [] },
    });
    expect(await readdir(rig.lastOutput)).toEqual([]);
  });
});
