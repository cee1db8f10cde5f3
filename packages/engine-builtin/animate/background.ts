import { POINTS } from '@semblance/vision/face-mesh';
import { smoothstep } from '@semblance/vision/plane/plane';
import type { Planes } from './openings.ts';
import type { ClipBox } from './triangle-spans.ts';

/**
 * Way of a head, in IOD, from which the background beside it is made up, since it may show a fringe of the person. At
 * rest all of it is the still's.
 */
const UNCOVERS = 0.04;

/**
 * Returns how far any part around a face has moved, in IOD.
 * @param now places of the vertices without an expression, x and y in turn
 * @param rest their places in the still
 */
export function wayOf(now: Float32Array, rest: Float32Array, iod: number): number {
  let most = 0;
  for (let i = POINTS * 2; i < now.length; i += 2) {
    const dx = (now[i] as number) - (rest[i] as number);
    const dy = (now[i + 1] as number) - (rest[i + 1] as number);
    most = Math.max(most, dx * dx + dy * dy);
  }
  return Math.sqrt(most) / iod;
}

/** Paints a box of a frame with the still and, the farther the head is away, with what is made up behind it. */
export function paintBackground(
  to: Planes,
  {
    still,
    background,
    box,
    away,
  }: { readonly still: Planes; readonly background: Planes; readonly box: ClipBox; readonly away: number },
): void {
  const weight = Math.round(256 * smoothstep(0, UNCOVERS, away));
  for (const plane of ['y', 'u', 'v'] as const) {
    const per = plane === 'y' ? 1 : 2;
    const { width, data } = to[plane];
    const seen = still[plane].data;
    const made = background[plane].data;
    for (let y = box.top / per; y < box.bottom / per; y++) {
      const [begin, end] = [y * width + box.left / per, y * width + box.right / per];
      data.set((weight === 0 ? seen : made).subarray(begin, end), begin);
      if (weight === 0 || weight === 256) continue;
      for (let i = begin; i < end; i++) {
        const from = seen[i] as number;
        data[i] = from + (((made[i] as number) - from) * weight + 128) / 256;
      }
    }
  }
}
