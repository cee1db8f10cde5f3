import { blur, type Plane, plane } from '@semblance/vision/plane/plane';
import type { Channels } from './light.ts';
import type { SkinBlend } from './swap-plan.ts';

/**
 * Gives the features the target's own detail where the source has none, because its picture shows it smaller: lashes,
 * hairs of a brow. Shape, brightness and colour stay the source's. Its eyes are the target's in the source's shape,
 * because detail of one iris does not fit another.
 * @param lit the source as it is lit, without what was added to its eyes
 * @param missing how much of the finest detail the source lacks, 0–1, and the finest `scale` that it has, in pixels
 * @param blobs how blurred its irises are, 0–1, in the `eyes`
 * @param moving 1 where what is seen in other frames is not where it was in this one
 */
export function withOwnDetail(
  blend: SkinBlend,
  { own, lit }: { readonly own: Channels; readonly lit: Channels },
  {
    missing,
    scale,
    eyes,
    blobs,
    moving,
  }: {
    readonly missing: number;
    readonly scale: number;
    readonly eyes: Plane;
    readonly blobs: number;
    readonly moving?: Plane | undefined;
  },
): SkinBlend {
  const { width, height } = blend.share;
  const share = plane(width, height);
  const other = (i: number): number => 1 - blobs * (eyes.data[i] as number);
  const lacking = (i: number): number => missing * (1 - (moving?.data[i] ?? 0));
  for (let i = 0; i < share.data.length; i++)
    share.data[i] = other(i) * (1 - lacking(i)) * (blend.share.data[i] as number);
  const correction = blend.correction.map((channel, c) => {
    const coarse = blur(own[c] as Plane, scale);
    const out = plane(width, height);
    for (let i = 0; i < out.data.length; i++) {
      const exchanged = lacking(i) * (blend.share.data[i] as number);
      const source = blend.sharpness * ((lit[c] as Plane).data[i] as number);
      out.data[i] =
        other(i) * ((channel.data[i] as number) + exchanged * (source - (coarse.data[i] as number)));
    }
    return out;
  });
  return { ...blend, share, correction: correction as unknown as Channels };
}
