import { EYES } from '@semblance/vision/gaze';
import { fillPolygon, type Plane, plane, smoothstep } from '@semblance/vision/plane/plane';

/** Points on both cheeks. */
const CHEEKS = [50, 117, 118, 101, 280, 346, 347, 330] as const;
/** Redness relative to that of the skin from which a pixel of an eye is redder than eyes are, and from which surely. */
const RED = [1.45, 1.75] as const;
/** Least redness of skin that is assumed; pale skin is no measure. */
const SKIN = 1.2;
/** Least brightness of red, 0–255: what is darker is no reflection. */
const BRIGHT = 90;
/** Distance from the middle of the corners up to which a pupil may lie, as a share of their distance. */
const PUPIL = 0.32;
/** Share of a red pupil that lies in the disc of its area around its middle; of red lids in shade less does. */
const ROUND = 0.6;
/** Least area of a red pupil, in squared distances of the corners. Veins are smaller. */
const LEAST = 0.018;

interface Pixels {
  readonly width: number;
  readonly height: number;
  readonly data: Float32Array | Uint8Array | Uint16Array;
  readonly channels: number;
}

/**
 * Makes pupils dark that a flash made red, in place.
 * @param points mesh in pixels of the image, stride 3
 */
export function calmRedEyes(image: Pixels, points: Float32Array): void {
  if (image.channels < 3) return;
  const skin = Math.max(SKIN, cheeksOf(image, points));
  for (const eye of EYES) calm(image, points, eye, skin);
}

function cheeksOf({ width, height, data, channels }: Pixels, points: Float32Array): number {
  let sum = 0;
  for (const index of CHEEKS) {
    const x = Math.min(width - 1, Math.max(0, Math.floor(points[index * 3] as number)));
    const y = Math.min(height - 1, Math.max(0, Math.floor(points[index * 3 + 1] as number)));
    sum += rednessAt(data, (y * width + x) * channels);
  }
  return sum / CHEEKS.length;
}

function rednessAt(data: Pixels['data'], at: number): number {
  const [r, g, b] = [data[at] as number, data[at + 1] as number, data[at + 2] as number];
  return (r + 1) / (Math.max(g, b) + 1);
}

function calm(
  { width, height, data, channels }: Pixels,
  points: Float32Array,
  { outline, corners }: (typeof EYES)[number],
  skin: number,
): void {
  const place = (index: number): [number, number] => [
    points[index * 3] as number,
    points[index * 3 + 1] as number,
  ];
  const [a, b] = corners.map(place) as [[number, number], [number, number]];
  const across = Math.hypot(b[0] - a[0], b[1] - a[1]);
  const middle = [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2] as const;
  const x0 = Math.max(0, Math.floor(middle[0] - 0.5 * across));
  const y0 = Math.max(0, Math.floor(middle[1] - 0.5 * across));
  const x1 = Math.min(width, Math.ceil(middle[0] + 0.5 * across));
  const y1 = Math.min(height, Math.ceil(middle[1] + 0.5 * across));
  if (x1 - x0 < 2 || y1 - y0 < 2) return;
  const opening = plane(x1 - x0, y1 - y0);
  fillPolygon(
    opening,
    outline.flatMap((index) => [place(index)[0] - x0, place(index)[1] - y0]),
  );
  const brightest = data instanceof Uint16Array ? BRIGHT * 257 : BRIGHT;
  const red = plane(opening.width, opening.height);
  let area = 0;
  for (let i = 0; i < opening.data.length; i++) {
    const [x, y] = [x0 + (i % opening.width), y0 + Math.floor(i / opening.width)];
    const at = (y * width + x) * channels;
    const beside = Math.hypot(x + 0.5 - middle[0], y + 0.5 - middle[1]) / across;
    if (!opening.data[i] || beside > PUPIL || (data[at] as number) < brightest) continue;
    red.data[i] = smoothstep(RED[0], RED[1], rednessAt(data, at) / skin);
    area += red.data[i] as number;
  }
  if (area < LEAST * across * across || !isRound(red, area)) return;
  for (let i = 0; i < red.data.length; i++) {
    const at = ((y0 + Math.floor(i / red.width)) * width + x0 + (i % red.width)) * channels;
    const grey = Math.min(data[at + 1] as number, data[at + 2] as number);
    for (let c = 0; c < 3; c++) {
      const here = data[at + c] as number;
      data[at + c] = here + (grey - here) * (red.data[i] as number);
    }
  }
}

/** Whether the red of an eye is a disc. @param area sum of `red` */
function isRound(red: Plane, area: number): boolean {
  const places = Array.from(red.data, (share, i) => ({
    share,
    x: i % red.width,
    y: Math.floor(i / red.width),
  })).filter(({ share }) => share > 0);
  const [x, y] = (['x', 'y'] as const).map(
    (axis) => places.reduce((sum, place) => sum + place.share * place[axis], 0) / area,
  ) as [number, number];
  const inside = places.filter((place) => Math.hypot(place.x - x, place.y - y) <= Math.sqrt(area / Math.PI));
  return inside.reduce((sum, { share }) => sum + share, 0) >= ROUND * area;
}
