import type { RgbImage } from '@semblance/vision/picture';
import { seededRandom } from '../random.ts';
import { Level } from './level.ts';

/** Side of the coarsest picture, in pixels, and passes over each picture from there on. */
const COARSEST = 64;
const PASSES = [3, 2, 1] as const;
/** Distance, in pixels, within which other sources are looked for once a coarser picture has given the first. */
const NEAR = 8;
/** The same in the finest picture. */
const REFINED = 2;
/** Least number of places to copy from. */
const LEAST = 60;

/**
 * Finds for each hidden pixel a seen one to copy, such that what is copied looks like the rest of the picture: every
 * patch of it occurs there (Wexler et al. 2007, by the search of Barnes et al. 2009). Stripes, shelves and folds are
 * continued as they are.
 * @param kinds a {@link KIND} for each pixel
 * @returns the index of the source of each hidden pixel, -1 for all others; undefined when too little is seen
 */
export function complete(image: RgbImage, kinds: Uint8Array): Int32Array | undefined {
  const levels = [new Level(image, kinds)];
  for (let last = levels[0] as Level; Math.max(last.width, last.height) > COARSEST; ) {
    last = last.halved();
    // A narrow strip beside a person is no place to copy from in a small picture.
    if (last.centres.length < LEAST) break;
    levels.unshift(last);
  }
  if ((levels[0] as Level).centres.length < LEAST) return undefined;
  const random = seededRandom('completion');
  levels.forEach((level, k) => {
    const coarser = levels[k - 1];
    // The finest picture costs most, and little is left to find there.
    const finest = coarser !== undefined && k === levels.length - 1;
    if (coarser) level.startFrom(coarser, random);
    else level.peel();
    const reach = k === 0 ? COARSEST / 2 : finest ? REFINED : NEAR;
    const passes = PASSES[k] ?? 1;
    for (let pass = 0; pass < passes; pass++) {
      if (pass > 0) level.vote();
      level.measure();
      level.search(random, reach, false);
      if (!finest) level.search(random, reach, true);
    }
  });
  return (levels.at(-1) as Level).sources;
}
