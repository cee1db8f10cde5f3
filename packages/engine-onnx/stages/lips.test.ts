import type { Picture } from '@semblance/engine-api/picture';
import { faceFromPoints, POINTS } from '@semblance/vision/face-mesh';
import { FACE_OVAL, LEFT_EYE, RIGHT_EYE } from '@semblance/vision/face-regions';
import { expect, it } from 'vitest';
import type { FloatTensor, FloatTensors } from '../sessions/protocol.ts';
import { speak } from './lips.ts';
import type { OpenModel } from './models.ts';

/** An upright oval face with its eyes level: 120 pixels wide, 160 high, from (60, 40). */
const [LEFT, TOP, WIDTH, HEIGHT] = [60, 40, 120, 160];

/** A place of the upright face, where its head is turned about its middle. */
function turned(x: number, y: number, roll: number): [number, number] {
  const [dx, dy] = [x - (LEFT + WIDTH / 2), y - (TOP + HEIGHT / 2)];
  const [cos, sin] = [Math.cos(roll), Math.sin(roll)];
  return [LEFT + WIDTH / 2 + cos * dx - sin * dy, TOP + HEIGHT / 2 + sin * dx + cos * dy];
}

function ovalFace(roll = 0) {
  const points = new Float32Array(POINTS * 3);
  const put = (index: number, x: number, y: number) => points.set([...turned(x, y, roll), 0], index * 3);
  for (let i = 0; i < POINTS; i++) put(i, LEFT + WIDTH / 2, TOP + HEIGHT / 2);
  for (const [i, index] of FACE_OVAL.entries()) {
    const angle = (2 * Math.PI * i) / FACE_OVAL.length;
    put(index, LEFT + (WIDTH / 2) * (1 + Math.sin(angle)), TOP + (HEIGHT / 2) * (1 - Math.cos(angle)));
  }
  for (const index of RIGHT_EYE) put(index, LEFT + 35, TOP + 65);
  for (const index of LEFT_EYE) put(index, LEFT + 85, TOP + 65);
  return faceFromPoints(points, 1);
}

/** Red rises by one from column to column, green from row to row. */
function slopes(): Picture {
  const data = new Uint8Array(256 * 256 * 3);
  for (let i = 0; i < 256 * 256; i++) data.set([i % 256, Math.floor(i / 256), 90], i * 3);
  return { width: 256, height: 256, channels: 3, data };
}

it('shows the network the whole face, squeezed into a square, and stretches what it draws back', async () => {
  let shown: Float32Array = new Float32Array();
  const lips = {
    traits: { mean: [0, 0, 0], deviation: [1, 1, 1], order: 'bgr' },
    run: async ({ target }: FloatTensors): Promise<FloatTensor> => {
      shown = (target as FloatTensor).data.slice(3 * 96 * 96);
      return { data: Float32Array.from(shown), dims: [1, 3, 96, 96] };
    },
  } as unknown as OpenModel;
  const picture = slopes();
  const mask = await speak(
    lips,
    picture,
    ovalFace(),
    new Float32Array(80 * 16),
    new AbortController().signal,
  );
  // Blue comes first: plane 2 is red, plane 1 green.
  const at = (plane: number, x: number, y: number) => 255 * (shown[(plane * 96 + y) * 96 + x] as number);
  for (const [x, y] of [
    [10, 10],
    [48, 20],
    [80, 90],
    [20, 70],
  ] as const) {
    expect(Math.abs(at(2, x, y) - (LEFT + ((x + 0.5) * WIDTH) / 96 - 0.5))).toBeLessThan(0.7);
    expect(Math.abs(at(1, x, y) - (TOP + ((y + 0.5) * HEIGHT * 1.06) / 96 - 0.5))).toBeLessThan(0.7);
  }
  // A network that repeats what it sees changes nothing by more than rounding.
  const before = slopes();
  for (let i = 0; i < before.data.length; i++)
    expect(Math.abs((picture.data[i] as number) - (before.data[i] as number))).toBeLessThanOrEqual(1);
  // Only the lower half is drawn.
  const rows = mask.share.height;
  const ofRow = (y: number) =>
    Math.max(...mask.share.data.subarray(y * mask.share.width, (y + 1) * mask.share.width));
  expect(ofRow(Math.floor(rows * 0.45))).toBe(0);
  expect(ofRow(Math.floor(rows * 0.75))).toBe(1);
});

it.each([0, 0.4, -1.2])(
  'shows a chin that falls when the mouth opens, with the head at %d rad',
  async (roll) => {
    const lips = {
      traits: { mean: [0, 0, 0], deviation: [1, 1, 1], order: 'bgr' },
      // White everywhere.
      run: async (): Promise<FloatTensor> => ({
        data: new Float32Array(3 * 96 * 96).fill(1),
        dims: [1, 3, 96, 96],
      }),
    } as unknown as OpenModel;
    const data = new Uint8Array(256 * 256 * 3);
    const picture: Picture = { width: 256, height: 256, channels: 3, data };
    await speak(lips, picture, ovalFace(roll), new Float32Array(80 * 16), new AbortController().signal);
    const [chin, middle] = [TOP + HEIGHT, LEFT + WIDTH / 2];
    const share = (x: number, y: number) => {
      const [column, row] = turned(x, y, roll).map(Math.round);
      return (data[((row as number) * 256 + (column as number)) * 3] as number) / 255;
    };
    // Whole at the closed chin, and less and less below it, where the crop ends.
    expect(share(middle, chin - 1)).toBeGreaterThan(0.8);
    expect(share(middle, chin + 4)).toBeGreaterThan(0.35);
    expect(share(middle, chin + 8)).toBeLessThan(0.2);
    expect(share(middle, chin + 12)).toBe(0);
    // The room is the chin's: cheeks stay within their outline.
    expect(share(LEFT - 2, TOP + HEIGHT * 0.6)).toBe(0);
    expect(share(LEFT + WIDTH + 2, TOP + HEIGHT * 0.6)).toBe(0);
  },
);
