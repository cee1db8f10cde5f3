import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { getPriority, tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Picture } from '@semblance/engine-api/picture';
import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/engine-builtin/swap-rig';
import {
  type Change,
  difference,
  filmed,
  GROUP,
  LONG_HAIR,
  pixelsOf,
  readPicture,
} from '@semblance/testkit/live/video/pictures';
import { FaceFinder } from '@semblance/vision/face-finder';
import { FaceRecogniser, sameness } from '@semblance/vision/face-recogniser';
import { openSession } from '@semblance/vision/models/session';
import { cropRgb } from '@semblance/vision/picture';
import sharp from 'sharp';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { loadCharacters } from './characters.ts';
import { createLiveVideo } from './live-video.ts';
import { type LiveLook, type LiveVideoStream, PICTURE_LIMITS } from './types.ts';

const ASTRONAUT_LOOK: LiveLook = { kind: 'character', name: 'astronaut' };
/** Positions of the admiral's face and of the sky in the camera picture. */
const FACE = { x: 205, y: 140, width: 70, height: 80 };
const SKY = { x: 380, y: 60, width: 60, height: 60 };

let live: ReturnType<typeof createLiveVideo>;
let admiral: Picture;
let directory: string;
const streams: LiveVideoStream[] = [];

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'semblance-live-video-'));
  live = createLiveVideo({
    slots: 1,
    characters: await loadCharacters(),
    onCrash: (error) => {
      throw error;
    },
  });
  [admiral] = await Promise.all([readPicture(ADMIRAL), live.warmUp()]);
});
afterEach(async () => {
  await Promise.all(streams.splice(0).map((stream) => stream.close()));
});
afterAll(async () => {
  await live.close();
  await rm(directory, { recursive: true, force: true });
});

async function open(look: LiveLook = ASTRONAUT_LOOK): Promise<LiveVideoStream> {
  const stream = await live.open({ look });
  streams.push(stream);
  return stream;
}

/** The admiral in front of the camera, who moves a little from frame to frame. */
const portrait = (i: number, change?: Change) =>
  filmed(admiral, { x: 255 + 2 * Math.sin(i / 3), y: 190, zoom: 1 }, change);
/** Her uniform, without a face. */
const uniform = () => filmed(admiral, { x: 250, y: 480, zoom: 2.2 });

describe('a stream', () => {
  it('puts the face of the character on, and leaves the rest', async () => {
    const stream = await open();
    for (let i = 0; i < 6; i++) {
      const before = await portrait(i);
      const done = await stream.transform(before);
      expect(done).toMatchObject({ faces: 1, swapped: true });
      if (i < 5) continue;
      expect(await difference(before, done.picture, FACE)).toBeGreaterThan(2);
      expect(await difference(before, done.picture, SKY)).toBeLessThan(2);
    }
  });

  it('makes somebody without glasses more like the face, and less like who was there', async () => {
    const stream = await open();
    const before = await filmed(await readPicture(LONG_HAIR), { x: 1544, y: 339, zoom: 1 });
    const after = (await stream.transform(before)).picture;
    const sessions = await Promise.all(
      (['blazeface', 'facemesh', 'faceres'] as const).map((name) => openSession(name)),
    );
    const [blazeface, facemesh, faceres] = sessions as [never, never, never];
    const [finder, recogniser] = [new FaceFinder({ blazeface, facemesh }), new FaceRecogniser(faceres)];
    const describeFace = async (picture: Picture) => {
      const [face] = await finder.find(picture, () => undefined);
      if (!face) throw new Error('no face');
      return recogniser.describe((crop, size) => cropRgb(picture, crop, size, size).data, face);
    };
    const [wanted, own, result] = [
      await describeFace(await readPicture(ASTRONAUT)),
      await describeFace(await pixelsOf(before)),
      await describeFace(await pixelsOf(after)),
    ];
    // Features are the source's, and skin stays the person's, as do her dark brows beside the source's faint ones, without
    // which she looks shaven: so a swap comes nearer but not close.
    expect(sameness(result, wanted) - sameness(own, wanted)).toBeGreaterThan(0.04);
    expect(sameness(result, own)).toBeLessThan(0.75);
  });

  it('draws a smile without dots along its lips', async () => {
    const stream = await open();
    const before = await filmed(await readPicture(LONG_HAIR), { x: 1544, y: 339, zoom: 1 });
    const { picture } = await stream.transform(before);
    const mouth = { left: 185, top: 160, width: 90, height: 75 };
    const data = await sharp(Buffer.from(picture)).extract(mouth).greyscale().raw().toBuffer();
    const at = (i: number): number => data[i] as number;
    const apart = (i: number): number =>
      Math.abs(4 * at(i) - at(i - 1) - at(i + 1) - at(i - mouth.width) - at(i + mouth.width));
    let dots = 0;
    for (let i = mouth.width + 1; i < data.length - mouth.width - 1; i++)
      if (i % mouth.width > 0 && (i + 1) % mouth.width > 0 && apart(i) > 60) dots++;
    expect(dots).toBeLessThan(20);
  });

  it('takes the face of a picture that was uploaded, and says what is wrong with one', async () => {
    const stream = await open({ kind: 'face', path: ASTRONAUT });
    expect(await stream.transform(await portrait(0))).toMatchObject({ swapped: true });
    await stream.close();
    const sky = join(directory, 'sky.jpg');
    await writeFile(sky, await filmed(admiral, { x: 480, y: 60, zoom: 9 }));
    await expect(open({ kind: 'face', path: sky })).rejects.toMatchObject({ code: 'face_not_detected' });
    const text = join(directory, 'text.jpg');
    await writeFile(text, 'hello');
    await expect(open({ kind: 'face', path: text })).rejects.toMatchObject({ code: 'unsupported_format' });
    await expect(open({ kind: 'character', name: 'nobody' })).rejects.toMatchObject({
      code: 'unknown_character',
    });
    expect(await (await open()).transform(await portrait(0))).toMatchObject({ swapped: true });
  });

  it('changes its face from one picture to the next, as if it had been opened with that one', async () => {
    const look = { kind: 'face', path: LONG_HAIR } as const;
    const shown = async (stream: LiveVideoStream, from: number) => {
      let picture: Uint8Array = Buffer.alloc(0);
      for (let i = from; i < from + 3; i++) ({ picture } = await stream.transform(await portrait(i)));
      return picture;
    };
    const other = await open(look);
    const wanted = await shown(other, 4);
    await other.close();
    const stream = await open();
    const former = await shown(stream, 0);
    // Pictures that come meanwhile wait, and have the new face.
    const [, done] = await Promise.all([stream.change(look), stream.transform(await portrait(3))]);
    expect(done).toMatchObject({ faces: 1, swapped: true });
    const latter = await shown(stream, 4);
    expect(await difference(latter, former, FACE)).toBeGreaterThan(4);
    expect(await difference(latter, wanted, FACE)).toBeLessThan((await difference(latter, former, FACE)) / 2);
    await stream.change({ kind: 'own' });
    const own = await portrait(7);
    expect(await stream.transform(own)).toEqual({ picture: own, faces: 0, swapped: false });
    await stream.change(ASTRONAUT_LOOK);
    expect(await stream.transform(await portrait(8))).toMatchObject({ swapped: true });
  });

  it('keeps its face when another cannot be had, and changes once at a time', async () => {
    const stream = await open();
    const sky = join(directory, 'only-sky.jpg');
    await writeFile(sky, await filmed(admiral, { x: 480, y: 60, zoom: 9 }));
    const before = await stream.transform(await portrait(0));
    for (const [look, code] of [
      [{ kind: 'face', path: sky }, 'face_not_detected'],
      [{ kind: 'face', path: join(directory, 'none.jpg') }, undefined],
      [{ kind: 'character', name: 'nobody' }, 'unknown_character'],
    ] as const) {
      const error = await stream.change(look).catch((reason) => reason);
      expect(error).toBeInstanceOf(Error);
      expect(error.code).toBe(code);
      const after = await stream.transform(await portrait(0));
      expect(after).toMatchObject({ swapped: true });
      expect(await difference(before.picture, after.picture, FACE)).toBeLessThan(2);
    }
    const first = stream.change(ASTRONAUT_LOOK);
    await expect(stream.change(ASTRONAUT_LOOK)).rejects.toMatchObject({ code: 'busy' });
    await Promise.all([first, stream.close()]);
    await expect(stream.change(ASTRONAUT_LOOK)).rejects.toMatchObject({ code: 'closed' });
  });

  it('with the own face, or without a face in view, gives the very bytes back', async () => {
    const own = await open({ kind: 'own' });
    const picture = await portrait(0);
    expect(await own.transform(picture)).toEqual({ picture, faces: 0, swapped: false });
    await own.close();
    const stream = await open();
    for (const nobody of [
      await uniform(),
      await filmed(admiral, { x: 255, y: 190, zoom: 1 }, undefined, { width: 31, height: 17 }),
    ])
      expect(await stream.transform(nobody)).toEqual({ picture: nobody, faces: 0, swapped: false });
  });

  it('loses a face and finds it again', async () => {
    const stream = await open();
    const send = async (picture: Buffer) => (await stream.transform(picture)).swapped;
    expect(await send(await portrait(0))).toBe(true);
    for (let i = 0; i < 8; i++) expect(await send(await uniform())).toBe(false);
    expect(await send(await portrait(1))).toBe(true);
  });

  it('paints nothing over a board that hides the face, and goes on behind it', async () => {
    const stream = await open();
    const hidden: Change = (rgb, width, height) => {
      for (let y = 40; y < height - 40; y++) rgb.fill(90, (y * width + 120) * 3, (y * width + 360) * 3);
    };
    for (let i = 0; i < 3; i++) await stream.transform(await portrait(i));
    for (let i = 3; i < 6; i++) {
      const picture = await portrait(i, hidden);
      const done = await stream.transform(picture);
      expect(await difference(picture, done.picture, FACE)).toBeLessThan(2);
    }
    expect(await stream.transform(await portrait(6))).toMatchObject({ swapped: true });
  });

  it('swaps all of several people', async () => {
    const group = await readPicture(GROUP);
    const size = { width: 640, height: 520 };
    const view = { x: group.width / 2, y: group.height / 2, zoom: 640 / group.width };
    const stream = await open();
    const picture = await filmed(group, view, undefined, size);
    const done = await stream.transform(picture);
    expect(done.faces).toBeGreaterThanOrEqual(3);
    expect(await sharp(done.picture).metadata()).toMatchObject({ format: 'jpeg', ...size });
  });

  it('swaps somebody who comes to stand beside', async () => {
    const stream = await open();
    const twice: Change = (rgb, width, height) => {
      for (let y = 0; y < height; y++)
        rgb.copyWithin((y * width + 350) * 3, (y * width + 150) * 3, (y * width + 280) * 3);
    };
    expect(await stream.transform(await portrait(0))).toMatchObject({ faces: 1 });
    const both = await portrait(0, twice);
    await expect.poll(async () => (await stream.transform(both)).faces).toBe(2);
  });

  it('follows into darkness: what is dark stays as dark', async () => {
    const stream = await open();
    for (let i = 0; i < 10; i++) {
      const light = 1 - 0.09 * i;
      const picture = await portrait(i, (rgb) => {
        for (let at = 0; at < rgb.length; at++) rgb[at] = (rgb[at] as number) * light;
      });
      const done = await stream.transform(picture);
      const [before, after] = [await meanOf(picture), await meanOf(done.picture)];
      expect(after / before).toBeGreaterThan(0.8);
      expect(after / before).toBeLessThan(1.35);
    }
  });

  it('takes pictures of any size in turn, and upright ones only come out', async () => {
    const stream = await open();
    const sizes = [
      { width: 640, height: 480 },
      { width: 321, height: 241 },
      { width: 720, height: 1280 },
      { width: 480, height: 360 },
    ];
    for (const size of sizes) {
      const zoom = Math.min(size.width / 480, size.height / 360);
      const picture = await filmed(admiral, { x: 255, y: 190, zoom }, undefined, size);
      const done = await stream.transform(picture);
      expect(done.swapped).toBe(true);
      expect(await sharp(done.picture).metadata()).toMatchObject(size);
    }
    const upright = await portrait(0);
    const lying = await sharp(upright)
      .rotate(270)
      .withMetadata({ orientation: 6 })
      .jpeg({ quality: 95 })
      .toBuffer();
    const done = await stream.transform(lying);
    expect(done.swapped).toBe(true);
    const metadata = await sharp(done.picture).metadata();
    expect(metadata).toMatchObject({ width: 480, height: 360 });
    expect(metadata.orientation ?? 1).toBe(1);
    // The picture states that it is not as the camera took it.
    expect(metadata.xmpAsString).toContain('digitalsourcetype/compositeWithTrainedAlgorithmicMedia"');
    expect(metadata.xmpAsString).toContain('xmp:CreatorTool="Semblance ');
    const nobody = await sharp(await uniform())
      .rotate(270)
      .withMetadata({ orientation: 6 })
      .jpeg()
      .toBuffer();
    const through = await stream.transform(nobody);
    expect(through.swapped).toBe(false);
    const plain = await sharp(through.picture).metadata();
    expect(plain).toMatchObject({ width: 480, height: 360 });
    expect(plain.xmp).toBeUndefined();
  });

  it('goes on after pictures that are none, and after the caller gives one too many', async () => {
    const stream = await open();
    const good = await portrait(0);
    const bad = [
      Buffer.alloc(0),
      Buffer.from('GIF89a'),
      good.subarray(0, good.length / 2),
      Buffer.alloc(PICTURE_LIMITS.bytes + 1),
    ];
    for (const picture of bad)
      await expect(stream.transform(picture)).rejects.toMatchObject({ code: 'bad_frame', retryable: false });
    const first = stream.transform(good);
    await expect(stream.transform(good)).rejects.toMatchObject({ code: 'busy', retryable: true });
    // The stream must have copied its input before.
    good.fill(0);
    expect(await first).toMatchObject({ swapped: true });
    await stream.close();
    await expect(stream.transform(good)).rejects.toMatchObject({ code: 'closed' });
  });
});

// In a process that is as nice already, no thread differs.
it.runIf(process.platform === 'linux' && getPriority() < 10)(
  'analyses beside the pictures in a thread that yields to them',
  async () => {
    const nice = await Promise.all(
      (await readdir('/proc/self/task')).map(async (task) => {
        const stat = await readFile(`/proc/self/task/${task}/stat`, 'latin1');
        // The name, in brackets, may contain anything; niceness is the 17th field after it.
        return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[16]);
      }),
    );
    expect(nice.filter((value) => value > 0)).toEqual([10]);
  },
);

it('200 streams one after the other leave no thread and no memory behind', async () => {
  const small = join(directory, 'small.png');
  await sharp(ASTRONAUT).extract({ left: 120, top: 0, width: 220, height: 240 }).toFile(small);
  const picture = await portrait(0);
  const used = async (count: number) => {
    for (let i = 0; i < count; i++) {
      const stream = await live.open({ look: i % 4 === 0 ? { kind: 'face', path: small } : { kind: 'own' } });
      if (i % 20 === 0) expect((await stream.transform(picture)).swapped).toBe(true);
      await stream.close();
    }
    return { threads: await threadsOfOurs(), bytes: process.memoryUsage.rss() };
  };
  const ids = live.threadIds;
  const early = await used(100);
  const late = await used(100);
  expect(live.threadIds).toEqual(ids);
  expect(late.threads).toBe(early.threads);
  expect(late.bytes - early.bytes).toBeLessThan(50 * 1024 * 1024);
});

/** Returns the number of this process's threads except those of libvips, which end after some idle time. */
async function threadsOfOurs(): Promise<number> {
  const names = (await readdir('/proc/self/task')).map((task) =>
    readFile(`/proc/self/task/${task}/comm`, 'utf8').catch(() => 'libvips'),
  );
  return (await Promise.all(names)).filter((name) => !name.startsWith('libvips')).length;
}

async function meanOf(jpeg: Uint8Array): Promise<number> {
  const { data, info } = await sharp(jpeg).greyscale().raw().toBuffer({ resolveWithObject: true });
  let sum = 0;
  for (let y = FACE.y; y < FACE.y + FACE.height; y++) {
    for (let x = FACE.x; x < FACE.x + FACE.width; x++) sum += data[y * info.width + x] as number;
  }
  return sum / (FACE.width * FACE.height);
}
