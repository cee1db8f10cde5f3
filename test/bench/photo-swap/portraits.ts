import { createRequire } from 'node:module';
import { basename, dirname, join } from 'node:path';
import type { Picture } from '@semblance/engine-api/picture';
import { distance, type Judge } from '@semblance/testkit/quality/judge';
import { type FaceFinder, yaw } from '@semblance/vision/face-finder';
import type { Face } from '@semblance/vision/face-mesh';
import sharp from 'sharp';

/** One face of one photograph, with the descriptors of the judges. */
export interface Entry {
  /** File, and index of the face from left to right. */
  readonly label: string;
  readonly picture: Picture;
  readonly face: Face;
  readonly dlib: Float32Array;
  readonly faceres: Float32Array;
}

export const ROOT = join(import.meta.dirname, '..', '..', '..');
/** Distance below which two faces count as one person and are not swapped (dlib's own threshold is 0.6). */
const SAME_PERSON = 0.42;

/** Finds all faces of the shipped portraits and of the demo photographs of `@vladmandic/face-api`. */
export async function loadEntries(
  finder: FaceFinder,
  judges: { dlib: Judge; faceres: Judge },
): Promise<Entry[]> {
  const entries: Entry[] = [];
  for (const file of pictureFiles()) {
    const picture = await readRgb(file);
    const faces = await finder.find(picture, () => undefined);
    faces.sort((a, b) => (a.points[12] as number) - (b.points[12] as number));
    for (const [index, face] of faces.entries()) {
      entries.push({
        label: `${basename(file).replace(/\.\w+$/, '')}#${index}`,
        picture,
        face,
        dlib: await judges.dlib.describe(picture, face),
        faceres: await judges.faceres.describe(picture, face),
      });
    }
  }
  return entries;
}

function pictureFiles(): string[] {
  const media = ['astronaut.png', 'einstein.jpg', 'grace_hopper.jpg'].map((name) =>
    join(ROOT, 'media', name),
  );
  const demo = join(dirname(createRequire(import.meta.url).resolve('@vladmandic/face-api')), '..', 'demo');
  return [...media, ...[1, 2, 3, 4, 5, 6].map((n) => join(demo, `sample${n}.jpg`))];
}

/** Reads a picture file as RGB with 8 bits. */
export async function readRgb(file: string): Promise<Picture> {
  const { data, info } = await sharp(file)
    .toColourspace('srgb')
    .removeAlpha()
    .raw()
    .toBuffer({ resolveWithObject: true });
  return { width: info.width, height: info.height, channels: 3, data: new Uint8Array(data) };
}

/** Yaw below which a face is near-frontal, in radians; the goals hold for swaps between such faces. */
const FRONTAL = (17 * Math.PI) / 180;
/** Yaw beyond which no whole face is visible, in radians. */
const TURNED = (35 * Math.PI) / 180;

/**
 * Chooses several sources for each face, always the same ones, who are other people according to the judge.
 * Near-frontal faces are paired with each other, all others with any face. The second group shows the results for
 * harder pictures.
 */
export function choosePairs(entries: readonly Entry[]): {
  frontal: [Entry, Entry][];
  hard: [Entry, Entry][];
} {
  const turn = (entry: Entry): number => Math.abs(yaw(entry.face));
  // The score excludes Einstein's face, which is 87 pixels wide, laughs and looks up: it is a portrait, but not a
  // frontal one.
  const isFrontal = (entry: Entry): boolean => turn(entry) < FRONTAL && entry.face.score > 0.9;
  const frontal = entries.filter(isFrontal);
  const pick = (targets: readonly Entry[], sources: readonly Entry[], each: number): [Entry, Entry][] =>
    targets.flatMap((target, t) => {
      const others = sources.map((_, step) => sources[(t + 1 + step * 5) % sources.length] as Entry);
      const fitting = others.filter(
        (source) => source !== target && distance(source.dlib, target.dlib) >= SAME_PERSON,
      );
      return [...new Set(fitting)].slice(0, each).map((source): [Entry, Entry] => [source, target]);
    });
  const turned = entries.filter((entry) => !isFrontal(entry) && turn(entry) < TURNED);
  return {
    frontal: pick(frontal, frontal, 6),
    hard: [...pick(turned, frontal, 1), ...pick(frontal, turned, 1)],
  };
}
