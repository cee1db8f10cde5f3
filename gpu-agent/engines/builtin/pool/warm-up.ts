import { prepareSource } from '../swap/source-face.ts';
import { swapFace } from '../swap/swap-face.ts';
import type { FaceFinder } from '../vision/face-finder.ts';
import type { Picture } from '../vision/picture.ts';

const SIZE = 256;
const SWAPS = 3;

/**
 * Runs both networks and a few small swaps before a thread's first job: until its code has been compiled and its memory
 * touched, a swap takes two to three times as long.
 */
export async function warmUp(finder: FaceFinder): Promise<void> {
  const picture = shades();
  const face = await finder.warmUp(picture);
  for (let swap = 0; swap < SWAPS; swap++) {
    swapFace({ ...picture, data: picture.data.slice() }, face, prepareSource(picture, face, face.width));
  }
}

/** A picture of skin's colour under light from one side: nothing is to be seen on it. */
function shades(): Picture {
  const data = new Uint8Array(SIZE * SIZE * 3);
  for (let i = 0; i < SIZE * SIZE; i++) {
    const light = 0.6 + (0.4 * (i % SIZE)) / SIZE;
    data[i * 3] = 205 * light;
    data[i * 3 + 1] = 160 * light;
    data[i * 3 + 2] = 135 * light;
  }
  return { width: SIZE, height: SIZE, channels: 3, data };
}
