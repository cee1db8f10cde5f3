import type { Picture } from '@semblance/engine-api/picture';
import { rgbToRegion } from '@semblance/media/yuv';
import type { Face } from '@semblance/vision/face-mesh';
import { JAW } from '../swap/jaw.ts';
import { patchWidth } from './keys.ts';
import type { SwapThreads } from './swap-threads.ts';

/** Number of faces that each thread draws and analyses before its first video; after that its code is compiled. */
const DRAWINGS = 60;
const ANALYSES = 3;
const COLOR = { range: 'tv', space: 'bt709' } as const;

/** Makes all threads analyse and draw faces of a small picture, so that their first video is fast. */
export async function warmUpSwaps(threads: SwapThreads, picture: Picture, face: Face): Promise<void> {
  const frame = frameOf(picture);
  const { points, width, score } = face;
  const render = threads.begin({ picture, points, score });
  try {
    const textureWidth = patchWidth(width);
    const analyse = () => threads.analyse(render, { frame, points, textureWidth, color: COLOR });
    const times = <T>(count: number, work: () => Promise<T>): Promise<T[]> =>
      Promise.all(Array.from({ length: count * threads.count }, work));
    const textures = await times(ANALYSES, analyse);
    const [from, to] = [textures[0], textures.at(-1)];
    if (!from || !to) return;
    const gaze = { aside: 0.05, sure: 1, seen: [1, 1], shut: [0, 0] } as const;
    const drawing = {
      points,
      width,
      opacity: 1,
      closed: [0.5, 0.5] as const,
      ownEyes: 0,
      gaze,
      // A jaw that moves, so that the code which moves it is compiled too.
      jaw: new Float32Array(JAW.length * 2).fill(0.01),
      from,
      to,
      share: 0.5,
    };
    await times(DRAWINGS, () => threads.draw(render, { frame, faces: [drawing], color: COLOR }));
  } finally {
    threads.end(render);
  }
}

/** Returns a picture as a video frame in memory that all threads see. */
function frameOf({ width, height, data }: Picture) {
  const frame = { width, height, data: new Uint8Array(new SharedArrayBuffer((width * height * 3) / 2)) };
  rgbToRegion(frame, { x: 0, y: 0, width, height }, Float32Array.from(data), COLOR);
  return frame;
}
