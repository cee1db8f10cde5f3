import sharp from 'sharp';
import type { SwapSource } from '../video-swap/swap-protocol.ts';
import type { SwapThreads } from '../video-swap/swap-threads.ts';
import type { PictureStream } from './picture-stream.ts';
import { JPEG_COLORS, toFrame } from './planes.ts';
import { RECOMMENDED } from './types.ts';

/** Number of pictures and analyses after which most of their code is compiled. */
const PICTURES = 40;
const ANALYSES = 4;
/** Typical face width in the recommended pictures, in pixels. */
const WARM_WIDTH = 183;
const STEP_MS = 1000 / RECOMMENDED.fps;

/** Sends pictures of a portrait that moves a little through a stream. */
export async function warmUpPictures(portrait: string, stream: PictureStream): Promise<void> {
  const { width, height } = RECOMMENDED;
  const views = await Promise.all(
    [0, 2, 4].map((shift) =>
      sharp(portrait)
        .autoOrient()
        .resize(width - shift, height, { fit: 'contain', background: '#808080' })
        .extend({ left: shift, background: '#808080' })
        .toColourspace('srgb')
        .jpeg()
        .toBuffer(),
    ),
  );
  for (let i = 0; i < PICTURES; i++) {
    await stream.transform(views[i % views.length] as Buffer, i * STEP_MS);
    stream.finish();
  }
}

/** Makes the background thread analyse the source in its own picture. */
export async function warmUpBeside(beside: SwapThreads, source: SwapSource): Promise<void> {
  const { picture, points } = source;
  const frame = {
    width: picture.width & ~1,
    height: picture.height & ~1,
    data: new Uint8Array((picture.width & ~1) * (picture.height & ~1) * 1.5),
  };
  toFrame(picture.data as Uint8Array, picture.width, frame);
  const render = beside.begin(source);
  try {
    const analysis = { frame, points, textureWidth: WARM_WIDTH, color: JPEG_COLORS };
    for (let i = 0; i < ANALYSES; i++) await beside.analyse(render, analysis);
  } finally {
    beside.end(render);
  }
}
