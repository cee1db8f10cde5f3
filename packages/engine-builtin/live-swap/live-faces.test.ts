import type { FaceFinder } from '@semblance/vision/face-finder';
import { type CropSource, type Face, faceFromPoints, POINTS } from '@semblance/vision/face-mesh';
import type { FaceRecogniser } from '@semblance/vision/face-recogniser';
import { FACE_SIDES } from '@semblance/vision/face-regions';
import { expect, it } from 'vitest';
import { LiveFaces } from './live-faces.ts';

const SIZE = { width: 160, height: 120 };
const FRAME = grey(100);

function grey(level: number) {
  return { ...SIZE, data: new Uint8Array((SIZE.width * SIZE.height * 3) / 2).fill(level) };
}

/** Returns a face that looks at the camera. */
function face(width: number, x: number): Face {
  const points = Float32Array.from({ length: POINTS * 3 }, (_, i) => [x, 60, 0][i % 3] as number);
  points[FACE_SIDES[0] * 3] = x - width / 2;
  points[FACE_SIDES[1] * 3] = x + width / 2;
  return faceFromPoints(points, 1);
}

/** A finder that sees the given faces and counts its searches. */
class Scene {
  faces: readonly Face[] = [];
  /** Descriptions that the recogniser returns for the faces, in order. */
  looks: Float32Array[] = [];
  nowMs = 0;
  searchMs = 0;
  drawMs = 0;
  thorough = 0;
  /** Whether there seem to be other faces beside the tracked ones, and how often that was asked. */
  others = false;
  searches = 0;
  readonly live: LiveFaces;

  constructor() {
    const finder = {
      lookUpright: async () => {
        this.nowMs += this.searchMs;
        return { faces: [...this.faces], left: [] };
      },
      look: async () => {
        this.thorough++;
        return { faces: [], left: [] };
      },
      seesOthers: async () => {
        this.searches++;
        return this.others;
      },
      followFrom: async (_source: CropSource, expected: Face) => {
        this.nowMs += this.searchMs;
        return expected;
      },
    } satisfies Partial<Record<keyof FaceFinder, unknown>>;
    const described = {
      describe: async (_source: CropSource, seen: Face) =>
        this.looks[this.faces.findIndex(({ width }) => width === seen.width)],
    };
    this.live = new LiveFaces(
      finder as unknown as FaceFinder,
      async () => described as unknown as FaceRecogniser,
    );
  }

  /** Work that is done after a frame has been sent. */
  afterwards = (frame: typeof FRAME) => this.live.lookForOthers(frame);

  /** @returns the numbers and widths of the faces to be swapped in a frame that arrives now */
  async send(frame = FRAME): Promise<{ track: number; width: number }[]> {
    const placed = await this.live.follow(frame, this.nowMs);
    this.nowMs += this.drawMs;
    this.live.workedUntil(this.nowMs);
    await this.afterwards(frame);
    return placed.map(({ track, face: { width } }) => ({ track, width }));
  }
}

it('looks thoroughly ever more seldom where nobody is in view, also in pictures with pauses between them', async () => {
  const scene = new Scene();
  for (let i = 0; i < 20; i++) {
    await scene.send();
    scene.nowMs += 600;
  }
  // The 1st, 2nd, 4th, 8th and 16th time.
  expect(scene.thorough).toBe(5);
  await scene.send(grey(200));
  expect(scene.thorough).toBe(6);
});

it.each(['searchMs', 'drawMs'] as const)(
  'takes a picture that takes long for no pause, and a pause for one: %s',
  async (what) => {
    const scene = new Scene();
    scene.faces = [face(30, 80)];
    scene[what] = 2000;
    for (let i = 0; i < 4; i++) {
      expect(await scene.send()).toEqual([{ track: 0, width: 30 }]);
      scene.nowMs += 40;
    }
    scene.nowMs += 600;
    expect(await scene.send()).toEqual([{ track: 1, width: 30 }]);
  },
);

it('looks for others once a picture is through, and shows them from the next one on', async () => {
  const scene = new Scene();
  const searches: number[] = [];
  let drawnBefore = 0;
  scene.afterwards = async (frame) => {
    drawnBefore = scene.searches;
    await scene.live.lookForOthers(frame);
    await scene.live.lookForOthers(frame);
    searches.push(scene.searches);
  };
  scene.faces = [face(60, 50)];
  const tracks = async () => (await scene.send()).map(({ track }) => track);
  for (let i = 0; i < 41; i++) {
    expect(await tracks()).toEqual([0]);
    scene.nowMs += 40;
  }
  // Once, every 0.8 s.
  expect([searches[19], searches[20], searches[39], searches[40]]).toEqual([0, 1, 1, 2]);
  expect(drawnBefore).toBe(1);
  scene.faces = [face(60, 50), face(50, 120)];
  scene.others = true;
  for (let i = 0; i < 20; i++) {
    expect(await tracks()).toEqual([0]);
    scene.nowMs += 40;
  }
  expect(await tracks()).toEqual([0, 1]);
});

it('forgets people who were not seen for long, and knows the others again', async () => {
  const axis = (i: number) => Float32Array.from({ length: 400 }, (_, k) => +(k === i));
  const scene = new Scene();
  const show = async (...shown: [width: number, person: number][]) => {
    scene.faces = shown.map(([width], i) => face(width, i === 0 ? 50 : 120));
    scene.looks = shown.map(([, person]) => axis(person));
    scene.nowMs += 1000;
    return (await scene.send()).map(({ width }) => width);
  };
  await show([60, 0]);
  for (let person = 1; person < 150; person++) await show([60, person]);
  // A known person is swapped; a new one beside them is not.
  expect(await show([60, 398], [40, 0])).toEqual([40]);
  for (let person = 150; person < 340; person++) await show([60, person]);
  expect(await show([60, 399], [40, 1])).toEqual([60, 40]);
  expect(await show([60, 397], [40, 0])).toEqual([40]);
});
