import { type Plane, plane, sample, smoothstep } from '@semblance/vision/plane/plane';
import type { WarpMap } from '@semblance/vision/plane/warp-map';
import type { SourceFace } from './source-face.ts';

/** Returns the share of each work pixel that the source shows: its face, without hair or a hand in front. */
export function sourceShown({ visible, visibleScale }: SourceFace, direct: WarpMap): Plane {
  // Pixels that are half hair already look like hair.
  return onWorkGrid(direct, 1, (x, y) =>
    smoothstep(0.5, 1, sample(visible, x * visibleScale, y * visibleScale)),
  );
}

/** Returns the share of each work pixel that the network finds covered on either face. */
export function frontOfEither(
  target: Plane | undefined,
  source: SourceFace,
  direct: WarpMap,
): Plane | undefined {
  const { front, visibleScale } = source;
  if (!front) return target;
  const out = onWorkGrid(direct, 0, (x, y) => sample(front, x * visibleScale, y * visibleScale));
  for (let i = 0; target && i < out.data.length; i++)
    out.data[i] = Math.max(out.data[i] as number, target.data[i] as number);
  return out;
}

/** @param otherwise value where the source has no pixel */
function onWorkGrid(direct: WarpMap, otherwise: number, at: (x: number, y: number) => number): Plane {
  const { width, height } = direct.x;
  const out = plane(width, height, otherwise);
  for (let i = 0; i < out.data.length; i++) {
    if (direct.covered.data[i]) out.data[i] = at(direct.x.data[i] as number, direct.y.data[i] as number);
  }
  return out;
}
