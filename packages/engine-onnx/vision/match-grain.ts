import type { Picture } from '@semblance/engine-api/picture';
import { addGrain, missingGrain, type Region, region } from '@semblance/engine-builtin/swap/grain';
import { targetNoise } from '@semblance/engine-builtin/swap/noise';
import type { Face } from '@semblance/vision/face-mesh';
import { type PasteMask, readShares } from './paste.ts';

/** Noise, in levels, below which a picture counts as clean. */
const CLEAN = 0.5;

/** The part of a picture under a mask as it was, and how noisy its face was. */
export interface KeptGrain {
  readonly left: number;
  readonly top: number;
  readonly before: Region;
  readonly noise: number;
}

/** Keeps the grain of a face before a model draws it. */
export function keepGrain(
  picture: Picture,
  face: Face,
  { originX, originY, scale, share }: PasteMask,
): KeptGrain {
  const left = Math.max(0, Math.floor(originX));
  const top = Math.max(0, Math.floor(originY));
  const right = Math.max(left, Math.min(picture.width, Math.ceil(originX + share.width * scale)));
  const bottom = Math.max(top, Math.min(picture.height, Math.ceil(originY + share.height * scale)));
  return { left, top, before: region(picture, left, top, right, bottom), noise: targetNoise(picture, face) };
}

/**
 * Makes a drawn face as noisy as it was, in place: adds as much of the picture's own grain as the model removed. A
 * face without the grain of its picture looks pasted in.
 * @param strength share of the missing grain, 0 to 1
 */
export function restoreGrain(
  picture: Picture,
  face: Face,
  mask: PasteMask,
  { left, top, before, noise }: KeptGrain,
  strength: number,
): void {
  if (noise < CLEAN) return;
  const grain = missingGrain(noise, targetNoise(picture, face));
  if (grain.share * strength === 0) return;
  const { data, width, channels } = picture;
  const most = data instanceof Uint16Array ? 65_535 : 255;
  const added = new Float32Array(3);
  const shares = new Float64Array(before.width);
  const amount = { share: 0, limit: grain.limit };
  for (let y = 0; y < before.height; y++) {
    if (!readShares(mask, { left, y: top + y }, shares)) continue;
    for (let x = 0; x < before.width; x++) {
      const part = shares[x] as number;
      if (!(part > 0)) continue;
      added.fill(0);
      amount.share = grain.share * strength * part;
      addGrain(added, before, x, y, amount);
      const change = (added[0] as number) / before.unit;
      const at = ((top + y) * width + left + x) * channels;
      for (let c = 0; c < (channels < 3 ? 1 : 3); c++)
        data[at + c] = Math.min(most, Math.max(0, Math.floor((data[at + c] as number) + change + 0.5)));
    }
  }
}
