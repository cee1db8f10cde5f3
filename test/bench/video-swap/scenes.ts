import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import {
  cropOf,
  readPicture,
  type Scene,
  type View,
} from '@semblance/testkit/engine-builtin/video-swap/clips';
import { toPicture } from '@semblance/vision/picture';
import { ROOT } from '../photo-swap/portraits.ts';

export const SIZE = { width: 1280, height: 720 };
export const SOURCE = join(ROOT, 'media', 'astronaut.png');
const DEMO = join(dirname(createRequire(import.meta.url).resolve('@vladmandic/face-api')), '..', 'demo');

/**
 * A person in a picture, and the view of the camera: `x` and `y` are the middle of the face, `zoom` is the
 * enlargement.
 */
export interface Portrait {
  readonly path: string;
  /** Index of the face in the picture, from the left. */
  readonly place: number;
  readonly x: number;
  readonly y: number;
  readonly zoom: number;
}

export const ADMIRAL: Portrait = {
  path: join(ROOT, 'media', 'grace_hopper.jpg'),
  place: 0,
  x: 255,
  y: 210,
  zoom: 1.75,
};

/** People without glasses or cap, by their names in the rows. */
export const OTHERS: Readonly<Record<string, Portrait>> = {
  'long hair, from the front': { path: join(DEMO, 'sample1.jpg'), place: 2, x: 1544, y: 339, zoom: 1.9 },
  'hair tied back': { path: join(DEMO, 'sample3.jpg'), place: 1, x: 1135, y: 391, zoom: 1.9 },
};

/** Films one portrait with a hand-held camera that comes nearer and goes away. */
export async function onePerson(frames: number, portrait = ADMIRAL): Promise<Scene> {
  const { path, x, y, zoom } = portrait;
  return {
    picture: await readPicture(path),
    frames,
    view: (i) => ({
      x: x + 6 * Math.sin(i / 9),
      y: y + 4 * Math.sin(i / 13),
      zoom: zoom + 0.1 * Math.sin(i / 20),
      turn: 0.06 * Math.sin(i / 11),
    }),
  };
}

/** Films a group of people with a panning camera. */
export async function severalPeople(frames: number): Promise<Scene> {
  const picture = await readPicture(join(DEMO, 'sample5.jpg'));
  const zoom = (1.05 * SIZE.width) / picture.width;
  const view = (i: number): View => ({
    x: picture.width / 2 + 20 * Math.sin(i / 10),
    y: picture.height * 0.45 + i * 0.4,
    zoom: zoom * (1 + 0.04 * Math.sin(i / 15)),
  });
  return { picture, frames, view };
}

/** Frames in which a grey board hides a face. */
export const HIDDEN = [31, 32, 33];

/** Films the portrait again. Its face is hidden for three frames, and a lamp fades. */
export async function hiddenPerson(frames: number): Promise<Scene> {
  const scene = await onePerson(frames);
  return {
    ...scene,
    change: (rgb, frame, { width, height }) => {
      const light = 1 - 0.35 * Math.min(1, frame / frames);
      for (let i = 0; i < rgb.length; i++) rgb[i] = (rgb[i] as number) * light;
      if (!HIDDEN.includes(frame)) return;
      for (let y = height >> 3; y < height - (height >> 3); y++) {
        for (let i = (y * width + 360) * 3; i < (y * width + 940) * 3; i++) rgb[i] = 100;
      }
    },
  };
}

/** Returns the point of the filmed picture that is at (x, y) of a frame, and the size of a pixel there. */
export function inScene(scene: Scene, frame: number, x: number, y: number) {
  const crop = cropOf(scene.view(frame), SIZE);
  return { ...toPicture(crop, x, y), scale: crop.scale };
}
