import type { Picture } from '@semblance/engine-api/picture';
import type { FaceFinder } from '@semblance/vision/face-finder';
import { prepareSource } from '../swap/source-face.ts';
import { swapFace } from '../swap/swap-face.ts';

const SIZE = 256;
const SWAPS = 3;

/**
 * Runs both networks and a few small swaps before the first job of a thread. Before its code is compiled and its
 * memory touched, a swap takes two to three times as long.
 * @param videos whether videos will be rendered too, so that the frame threads are started as well
 */
export async function warmUp(finder: FaceFinder, videos: boolean): Promise<void> {
  const picture = shades();
  const face = await finder.warmUp(picture);
  for (let swap = 0; swap < SWAPS; swap++) {
    swapFace({ ...picture, data: picture.data.slice() }, face, prepareSource(picture, face, face.width));
  }
  if (!videos) return;
  const [{ swapThreads }, { warmUpSwaps }] = await Promise.all([
    import('../video-swap/swap-threads.ts'),
    import('../video-swap/warm-up.ts'),
  ]);
  await warmUpSwaps(swapThreads(), picture, face);
}

/** Returns a picture of skin colour, lit from one side, without any face. */
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
