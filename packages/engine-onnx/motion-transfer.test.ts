/** @module-tag ffmpeg */
import { readdir } from 'node:fs/promises';
import type { Engine, RenderResult } from '@semblance/engine-api/engine';
import type { Picture } from '@semblance/engine-api/picture';
import type { VideoFrame } from '@semblance/media/types';
import { regionToRgb } from '@semblance/media/yuv';
import { fairly } from '@semblance/testkit/common/fair-clock';
import { makeClip, type Scene } from '@semblance/testkit/engine-builtin/video-swap/clips';
import { FACE, rgb, useOnnxRig } from '@semblance/testkit/engine-onnx/onnx-rig';
import {
  type ReferenceMotion,
  referenceColours,
  referenceMotion,
  referenceRelative,
  referenceRest,
  referenceStitch,
} from '@semblance/testkit/engine-onnx/portrait-reference';
import { tinyAnchored } from '@semblance/testkit/engine-onnx/tiny-detectors';
import { tinyLivePortrait } from '@semblance/testkit/engine-onnx/tiny-live-portrait';
import { tinyEnhancer } from '@semblance/testkit/engine-onnx/tiny-models';
import { type MediaRig, openMediaRig } from '@semblance/testkit/media/clips';
import { pointOf } from '@semblance/vision/face-mesh';
import { type CropTransform, cropRgb, squareCrop, toPicture } from '@semblance/vision/picture';
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { driverSquare, meanSquare, stillCrop } from './portrait/framing.ts';

const SPACE = { range: 'tv', space: 'bt709' } as const;
/** Places in a crop of 512 pixels, one in each of four fields, away from the crop's edge. */
const INSIDE = [96, 192, 320, 416];
/** Width that is added at the portrait's sides, so that there is content beside the crop. */
const WIDER = 120;
/** Left and right ends of the content beside the crop. */
const BESIDE = [
  [0, 50],
  [702, 752],
] as const;
/** Number of frames with the driver, and without it. */
const SHOWN = 5;
const GONE = 2;

const rig = useOnnxRig();
let media: MediaRig;
let still: string;
let driver: Picture;
let plain: Engine | undefined;

beforeAll(async () => {
  media = await openMediaRig();
  const extended = sharp(rig.image).extend({ left: WIDER, right: WIDER, background: '#336699' });
  still = await rig.file('still.png', extended.png().toBuffer());
  driver = await rgb(rig.face);
});
afterAll(() => media.close());

/** The driver in light of changing colours; all frames differ. */
function flickering(frames: number, from = 0): Scene {
  return {
    picture: driver,
    frames,
    view: () => ({ x: 256, y: 256, zoom: 0.56 }),
    change: (data, frame) => {
      const light = [0, 1, 2].map(
        (c) => 0.85 + 0.25 * Math.sin((6 * Math.PI * (from + frame)) / SHOWN + 2 * c),
      );
      for (let i = 0; i < data.length; i++) data[i] = (data[i] as number) * (light[i % 3] as number);
    },
  };
}

function wall(frames: number): Scene {
  const picture: Picture = { width: 64, height: 64, channels: 3, data: new Uint8Array(64 * 64 * 3).fill(90) };
  return { picture, frames, view: () => ({ x: 32, y: 32, zoom: 8 }) };
}

async function clip(name: string, scenes: readonly Scene[], more: { audio?: string } = {}): Promise<string> {
  const path = media.path(name);
  await makeClip(media.media, {
    path,
    width: 288,
    height: 288,
    scenes,
    noise: 0,
    ...more,
    timeUs: (i) => i * 40_000 + (i % 3) * 7_000,
  });
  return path;
}

const whole = (frame: VideoFrame): Picture =>
  regionToRgb(frame, { x: 0, y: 0, width: frame.width, height: frame.height }, SPACE);

async function transfer(
  engine: Engine,
  inputs: Record<string, string>,
  more: {
    outputDir?: string;
    signal?: AbortSignal;
    onProgress?: (fraction: number, stage: string) => void;
  } = {},
): Promise<RenderResult> {
  return engine.render({
    capability: 'motion-control',
    inputs,
    parameters: {},
    outputDir: await rig.outputDir(),
    signal: new AbortController().signal,
    onProgress: () => undefined,
    ...more,
  });
}

/**
 * Returns the mean colour over 48² crop pixels around a place; undefined when a part of them is outside the
 * picture.
 */
function around(picture: Picture, crop: CropTransform, [u, v]: readonly [number, number]) {
  const { x, y } = toPicture(crop, u, v);
  const reach = 24 * crop.scale + 4;
  if (x < reach || y < reach || x > picture.width - reach || y > picture.height - reach) return undefined;
  const part = cropRgb(picture, { ...crop, ...toOrigin(toPicture(crop, u - 24, v - 24)) }, 48, 48);
  return [0, 1, 2].map(
    (c) => part.data.reduce((sum, value, i) => (i % 3 === c ? sum + value : sum), 0) / 48 / 48,
  );
}

const toOrigin = ({ x, y }: { x: number; y: number }) => ({ originX: x, originY: y });

function mean(picture: Picture, [left, top, right, bottom]: readonly number[], c: number): number {
  let [sum, count] = [0, 0];
  for (let y = top as number; y < (bottom as number); y++) {
    for (let x = left as number; x < (right as number); x++, count++)
      sum += picture.data[(y * picture.width + x) * 3 + c] as number;
  }
  return sum / count;
}

describe('Motion Transfer through LivePortrait', () => {
  it('draws each frame from that of the driver, in order, and leaves the rest of the still alone', async () => {
    const engine = await rig.engine([
      ...tinyLivePortrait('n'),
      { contract: 'scrfd_2.5g', bytes: tinyAnchored([seenBy(FACE)]) },
    ]);
    expect(engine.capabilities.map(({ capability }) => capability)).toEqual([
      'face-swap-image',
      'motion-control',
    ]);
    const audio = await media.make('tone.wav', '-f lavfi -i sine=300:d=1');
    const path = await clip('driver.mp4', [flickering(SHOWN), wall(GONE), flickering(2, SHOWN)], { audio });
    const seen: [number, string][] = [];
    const result = await transfer(
      engine,
      { image: still, motion_video: path },
      { onProgress: (fraction, stage) => seen.push([fraction, stage]) },
    );
    expect(result).toMatchObject({
      contentType: 'video/mp4',
      details: {
        frames: SHOWN + GONE + 2,
        width: 512 + 2 * WIDER,
        height: 512,
        detector: 'onnx scrfd_2.5g',
        outline: 'builtin facemesh',
        tracker: 'builtin facemesh',
        features: 'onnx live_portrait_feature_extractor',
        motion: 'onnx live_portrait_motion_extractor',
        stitcher: 'onnx live_portrait_stitcher',
        generator: 'onnx live_portrait_generator',
      },
    });
    const inspected = await engine.inspect?.({
      capability: 'motion-control',
      inputs: { image: still },
      parameters: {},
      signal: new AbortController().signal,
    });
    expect(inspected?.faces).toEqual({ found: 1, changed: 1, left: [] });
    expect(result.findings).toEqual({
      faces: inspected?.faces,
      hints: [
        ...(inspected?.hints ?? []),
        expect.objectContaining({ code: 'frames_unchanged', input: 'motion_video' }),
      ],
      models: expect.arrayContaining([expect.objectContaining({ name: 'live_portrait_generator' })]),
    });
    // The tracker searches a lost face again only every few frames.
    expect(result.details.frames_without_face).toBeGreaterThanOrEqual(GONE);
    expect(result.details.frames_without_face).toBeLessThanOrEqual(GONE + 2);
    expect(result.units).toEqual({ unit: 'second', quantity: expect.closeTo(0.04 * (SHOWN + GONE + 2), 1) });
    expect(result.stages).toContainEqual({
      name: 'tracker',
      milliseconds: expect.any(Number),
      engine: 'builtin',
    });
    const fractions = seen.map(([fraction]) => fraction);
    expect(fractions).toEqual([...fractions].sort((a, b) => a - b));
    const stages = [...new Set(seen.map(([, stage]) => stage))];
    expect(stages).toEqual(['look', 'portrait', 'track', 'animate', 'write', 'done']);
    const { streams } = await media.ffprobe(result.outputPath, '-show_streams');
    expect(streams.map(({ codec_type }) => codec_type)).toEqual(['video', 'audio']);
    const [before, after] = [await media.frames(path), await media.frames(result.outputPath)];
    expect(after.map(({ ptsUs }) => ptsUs)).toEqual(before.map(({ ptsUs }) => ptsUs));

    // The expected result: what the tiny models and the formulas of LivePortrait's authors give for the same
    // pictures.
    const base = await rgb(still);
    const mesh = await rig.mesh(base);
    const look = (picture: Picture, crop: CropTransform): ReferenceMotion =>
      referenceMotion(cropRgb(picture, crop, 256, 256));
    const own = look(base, stillCrop({ mesh, five: [] }, 256));
    const driven = before.slice(0, SHOWN).map(whole);
    const faces = await Promise.all(driven.map((picture) => rig.mesh(picture)));
    const { center, side } = meanSquare(faces.map(driverSquare));
    const motions = driven.map((picture) => look(picture, squareCrop(center, side, 0, 256)));
    const rest = referenceRest(own);
    const colours = motions.map((motion) => {
      const moved = referenceRelative(own, motion, motions[0] as ReferenceMotion);
      return referenceColours(rest, referenceStitch(rest, moved));
    });
    const crop = stillCrop({ mesh, five: [] }, 512);
    const fields = Array.from({ length: 16 }, (_, field) => ({
      field,
      was: around(base, crop, placeOf(field)),
    })).filter(({ was }) => was !== undefined);
    expect(fields.length).toBeGreaterThanOrEqual(12);
    for (let i = 0; i < SHOWN + GONE; i++) {
      const picture = whole(after[i] as VideoFrame);
      const shown = fields.map(({ field }) => around(picture, crop, placeOf(field)) ?? []);
      /** Mean distance of this frame from the result of each driver frame. */
      const distances = colours.map((told) => {
        const each = fields.flatMap(({ field, was = [] }, n) =>
          [0, 1, 2].map((c) => {
            const wanted = 0.5 * (was[c] as number) + 127.5 * (told[c * 16 + field] as number);
            return Math.abs((shown[n]?.[c] as number) - wanted);
          }),
        );
        return each.reduce((sum, value) => sum + value, 0) / each.length;
      });
      // The last pose is held while the driver is away.
      const wanted = Math.min(i, SHOWN - 1);
      const own = distances[wanted] as number;
      expect(own, `frame ${i}`).toBeLessThan(1.5);
      for (const [from, distance] of distances.entries())
        if (from !== wanted) expect(distance, `frame ${i} as ${from}`).toBeGreaterThan(2 * own);
      for (const [left, right] of BESIDE) {
        const strip = [left, 0, right, 512];
        for (let c = 0; c < 3; c++)
          expect(Math.abs(mean(picture, strip, c) - mean(base, strip, c))).toBeLessThan(1.5);
      }
    }
  });

  it('restores the drawn face, and only that, when there is an enhancer', async () => {
    const engine = await rig.engine([
      ...tinyLivePortrait(1, {}, 0.1),
      { contract: 'gfpgan_1.4', bytes: tinyEnhancer(512, 0, 0.2), options: { blend: 1 } },
    ]);
    const path = await clip('two.mp4', [flickering(2)]);
    const { details, outputPath } = await transfer(engine, { image: still, motion_video: path });
    expect(details).toMatchObject({ frames: 2, enhancer: 'onnx gfpgan_1.4', detector: 'builtin blazeface' });
    const { x, y } = pointOf((await rig.mesh(await rgb(still))).points, 4);
    for (const frame of await media.frames(outputPath)) {
      const picture = whole(frame);
      for (let c = 0; c < 3; c++) {
        expect(
          Math.abs(mean(picture, [x - 15, y - 15, x + 15, y + 15].map(Math.round), c) - 153),
        ).toBeLessThan(3);
      }
      expect(Math.abs(mean(picture, [x - 15, 5, x + 15, 35].map(Math.round), 1) - 153)).toBeGreaterThan(15);
    }
  });

  it('says which input has no face, and leaves nothing behind', async () => {
    plain ??= await rig.engine(tinyLivePortrait());
    const good = await clip('good.mp4', [flickering(2)]);
    const blank = await clip('blank.mp4', [wall(4)]);
    const grey = sharp({ create: { width: 320, height: 320, channels: 3, background: '#777' } });
    const image = await rig.file('grey.png', grey.png().toBuffer());
    await expect(transfer(plain, { image, motion_video: good })).rejects.toMatchObject({
      code: 'face_not_detected',
      message: expect.stringContaining('image_key'),
    });
    const outputDir = await rig.outputDir();
    const faceless = transfer(plain, { image: still, motion_video: blank }, { outputDir });
    await expect(faceless).rejects.toMatchObject({
      code: 'face_not_detected',
      message: expect.stringContaining('motion_video_key'),
    });
    expect(await readdir(outputDir)).toEqual([]);
    await expect(transfer(plain, { image: still, motion_video: still })).rejects.toMatchObject({
      code: 'unsupported_format',
    });
    await expect(transfer(plain, { image: still })).rejects.toMatchObject({ code: 'processing_failed' });
  });

  it('ends within a second of a cancellation, and leaves nothing behind', async () => {
    plain ??= await rig.engine(tinyLivePortrait());
    const path = await clip('long.mp4', [flickering(16)]);
    const outputDir = await rig.outputDir();
    const engine = plain;
    const took = await fairly(async (now) => {
      const abort = new AbortController();
      let cancelledAt = 0;
      const running = transfer(
        engine,
        { image: still, motion_video: path },
        {
          outputDir,
          signal: abort.signal,
          onProgress: (_, stage) => {
            if (stage !== 'animate' || cancelledAt) return;
            cancelledAt = now();
            abort.abort(new Error('not any more'));
          },
        },
      );
      await expect(running).rejects.toThrow('not any more');
      return now() - cancelledAt;
    });
    expect(took).toBeLessThan(1000);
    expect(await readdir(outputDir)).toEqual([]);
  });
});

/** Returns the place at which a field of the tiny generator is read. */
function placeOf(field: number): readonly [number, number] {
  return [INSIDE[field % 4] as number, INSIDE[Math.floor(field / 4)] as number];
}

/** Returns the portrait's face as a detector sees it in the wider picture, scaled to its input. */
function seenBy(face: typeof FACE): typeof FACE {
  const factor = 640 / (512 + 2 * WIDER);
  const { x, y, width, height, five } = face;
  return {
    ...face,
    x: (x + WIDER) * factor,
    y: y * factor,
    width: width * factor,
    height: height * factor,
    five: five.map((point) => ({ x: (point.x + WIDER) * factor, y: point.y * factor })),
  };
}
