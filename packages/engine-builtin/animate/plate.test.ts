import type { Picture } from '@semblance/engine-api/picture';
import { type Subject, subjectOf } from '@semblance/testkit/engine-builtin/motion/drivers';
import { ASTRONAUT } from '@semblance/testkit/engine-builtin/swap-rig';
import { FaceFinder } from '@semblance/vision/face-finder';
import { openSession } from '@semblance/vision/models/session';
import { beforeAll, describe, expect, it } from 'vitest';
import { type FaceFrame, faceFrame } from './face-frame.ts';
import { type Layers, separate } from './plate.ts';

const WALL = [128, 98, 64] as const;
const HAIR = [70, 66, 64] as const;
const SUIT = [30, 30, 34] as const;
type Colour = readonly [number, number, number];

let subject: Subject;
let frame: FaceFrame;

beforeAll(async () => {
  const [blazeface, facemesh] = await Promise.all([openSession('blazeface'), openSession('facemesh')]);
  subject = await subjectOf(new FaceFinder({ blazeface, facemesh }), ASTRONAUT, 0, 480);
  frame = faceFrame(subject.face.points);
});

/** Returns the place of a pixel from the middle of the eyes, in IOD, to the right and down. */
function fromEyes(i: number): { across: number; down: number } {
  const { width } = subject.picture;
  const { origin, iod } = frame;
  return {
    across: ((i % width) + 0.5 - origin[0]) / iod,
    down: (Math.floor(i / width) + 0.5 - origin[1]) / iod,
  };
}

/** Half the width of the drawn head, and its middle and half its height. */
const HEAD = { half: 1.3, middle: 0.2, height: 1.9 } as const;

/** Half the width of the neck and the shoulders below it. */
const trunkAt = (down: number): number => 0.7 + 3 * Math.max(0, down - 2);

/** Draws a head and shoulders with hard edges before a wall and what stands beside it. */
function scene(beside: (across: number, down: number) => Colour | undefined): {
  picture: Picture;
  person: Uint8Array;
} {
  const { width, height } = subject.picture;
  const data = new Uint8Array(width * height * 3);
  const person = new Uint8Array(width * height);
  for (let i = 0; i < person.length; i++) {
    const { across, down } = fromEyes(i);
    const head = Math.hypot(across / HEAD.half, (down - HEAD.middle) / HEAD.height) < 1;
    const trunk = down > 1.6 && Math.abs(across) < trunkAt(down);
    if (head || trunk) person[i] = 255;
    data.set(head ? HAIR : trunk ? SUIT : (beside(across, down) ?? WALL), i * 3);
  }
  return { picture: { width, height, channels: 3, data }, person };
}

/** Returns the largest difference of a channel from the wall's among some pixels of a background, in levels. */
function mostFromWall(
  { background, box }: Layers,
  counts: (across: number, down: number) => boolean,
): number {
  const { width } = subject.picture;
  let most = 0;
  for (let y = box.top; y < box.bottom; y++) {
    for (let x = box.left; x < box.right; x++) {
      const { across, down } = fromEyes(y * width + x);
      if (!counts(across, down)) continue;
      const at = ((y - box.top) * (box.right - box.left) + x - box.left) * 3;
      WALL.forEach((value, c) => {
        most = Math.max(most, Math.abs((background[at + c] as number) - value));
      });
    }
  }
  return most;
}

/** A blue cloth with white dots whose edge is slanted and ends beside the head with a gap. */
function cloth(across: number, down: number): Colour | undefined {
  if (across > -1.62 + 0.08 * down) return undefined;
  const dot = Math.hypot(((((across * 3) % 1) + 1) % 1) - 0.5, ((((down * 3) % 1) + 1) % 1) - 0.5) < 0.25;
  return dot ? [225, 225, 225] : [38, 44, 92];
}

describe('the background behind a head', () => {
  it('continues the wall beside it, not a cloth beyond a gap', () => {
    const { picture, person } = scene(cloth);
    const layers = separate(picture, subject.face.points, frame, person);
    // As far behind the edge of the head as it comes into sight, at the height of the face.
    const uncovered = (across: number, down: number): boolean =>
      Math.abs(down) < 1 && across < -0.8 && across > -1.45;
    expect(mostFromWall(layers, uncovered)).toBeLessThan(40);
  });

  it('shows no part of a hoop in an ear, which moves with the head', () => {
    const { points } = subject.face;
    const down = ((points[361 * 3 + 1] as number) - frame.origin[1]) / frame.iod + 0.15;
    const edge = HEAD.half * Math.sqrt(1 - ((down - HEAD.middle) / HEAD.height) ** 2);
    const hoop = { across: edge + 0.18, down };
    const from = (across: number, y: number): number => Math.hypot(across - hoop.across, y - hoop.down);
    const { picture, person } = scene((across, y) =>
      Math.abs(from(across, y) - 0.22) < 0.04 ? [235, 235, 235] : undefined,
    );
    const layers = separate(picture, points, frame, person);
    expect(mostFromWall(layers, (across, y) => from(across, y) < 0.3)).toBeLessThan(40);
  });

  it('keeps what is close to the shoulders, which uncover little', () => {
    const { picture, person } = scene((across, down) =>
      Math.round(across * 9 + down * 5) % 2 ? [60, 60, 120] : undefined,
    );
    const { background, box } = separate(picture, subject.face.points, frame, person);
    let [sum, count] = [0, 0];
    for (let y = box.top; y < box.bottom; y++) {
      for (let x = box.left; x < box.right; x++) {
        const { across, down } = fromEyes(y * picture.width + x);
        const beyond = Math.abs(across) - trunkAt(down);
        if (down < 2.3 || down > 2.6 || beyond < 0.3 || beyond > 0.45) continue;
        const at = ((y - box.top) * (box.right - box.left) + x - box.left) * 3;
        const from = (y * picture.width + x) * 3;
        sum += Math.abs((background[at] as number) - (picture.data[from] as number));
        count++;
      }
    }
    expect(count).toBeGreaterThan(100);
    expect(sum / count).toBeLessThan(10);
  });
});
