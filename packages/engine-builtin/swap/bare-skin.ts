import { pushPull } from '@semblance/vision/plane/fill';
import { type Plane, plane, sample, smoothstep } from '@semblance/vision/plane/plane';
import type { WarpMap } from '@semblance/vision/plane/warp-map';
import type { Channels } from './light.ts';

/** Where the target's skin is seen, on the work grid. */
export interface SkinSeen {
  /** 1 on eyes, brows, lips and nostrils. */
  readonly dark: Plane;
  /** 1 inside the mouth. */
  readonly mouth: Plane;
  /** Share of each pixel that something in front of the target covers. */
  readonly covered: Plane;
  /** For each pixel, the place of the target that belongs there after its features have moved. */
  readonly own: WarpMap;
}

/** Cover above which a pixel tells nothing of the skin: the edge of a black frame is black, too. */
const HIDDEN = 0.3;

/**
 * Returns the target with its features painted over by the skin around them, so that none shows through, and with
 * them what moved with the face but is in front of it: the frame itself stays where it is.
 * @param remnants 1 where features reach beyond their mesh
 */
export function withoutFeatures(
  own: Channels,
  { share, remnants }: { readonly share: Plane; readonly remnants: Plane },
  parts: SkinSeen,
): Channels {
  const { dark, covered } = parts;
  const moved = movedCover(parts);
  const bare = plane(share.width, share.height);
  for (let i = 0; i < bare.data.length; i++)
    bare.data[i] =
      (1 - smoothstep(0.02, 0.2, Math.max(dark.data[i] as number, remnants.data[i] as number))) *
      (1 - smoothstep(0, HIDDEN, Math.max(covered.data[i] as number, moved.data[i] as number)));
  const smooth = filled(own, bare);
  return own.map((channel, c) => {
    const out = plane(share.width, share.height);
    for (let i = 0; i < out.data.length; i++) {
      const here = channel.data[i] as number;
      const feature = smoothstep(0.1, 0.6, dark.data[i] as number) * (share.data[i] as number);
      const gone = Math.max(
        feature,
        remnants.data[i] as number,
        smoothstep(0, HIDDEN, moved.data[i] as number),
      );
      out.data[i] = here + gone * (((smooth[c] as Plane).data[i] as number) - here);
    }
    return out;
  }) as unknown as Channels;
}

/** Returns the cover that the target's own pixels brought along to places that are not covered. */
function movedCover({ covered, own }: SkinSeen): Plane {
  const { width, height } = covered;
  const out = plane(width, height);
  for (let i = 0; i < out.data.length; i++) {
    if (!own.covered.data[i]) continue;
    const there = sample(covered, own.x.data[i] as number, own.y.data[i] as number);
    out.data[i] = there * (1 - (covered.data[i] as number));
  }
  return out;
}

/**
 * Returns source minus target, 0 inside the mouth. Behind what covers the target the difference goes on as beside
 * it: that from a black frame or from hair would spread over the skin at the coarse scales.
 */
export function difference(other: Channels, bare: Channels, { mouth, covered }: SkinSeen): Channels {
  const { width, height } = mouth;
  const seen = plane(width, height);
  for (let i = 0; i < seen.data.length; i++)
    seen.data[i] = 1 - smoothstep(0, HIDDEN, covered.data[i] as number);
  const apart = other.map((channel, c) => {
    const out = plane(width, height);
    for (let i = 0; i < out.data.length; i++)
      out.data[i] = (channel.data[i] as number) - ((bare[c] as Plane).data[i] as number);
    return out;
  }) as unknown as Channels;
  const out = filled(apart, seen);
  for (const channel of out)
    for (let i = 0; i < channel.data.length; i++)
      channel.data[i] = (channel.data[i] as number) * (1 - (mouth.data[i] as number));
  return out;
}

/** Returns channels whose pixels of little weight are filled in from those around them. */
function filled(channels: Channels, weight: Plane): Channels {
  const { width, height } = weight;
  const image = { width, height, data: new Float32Array(width * height * 3) };
  for (const [c, { data }] of channels.entries())
    for (let i = 0; i < data.length; i++) image.data[i * 3 + c] = data[i] as number;
  const { data } = pushPull(image, weight);
  return channels.map((_, c) => {
    const out = plane(width, height);
    for (let i = 0; i < out.data.length; i++) out.data[i] = data[i * 3 + c] as number;
    return out;
  }) as unknown as Channels;
}
