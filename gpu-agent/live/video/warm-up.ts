import sharp from 'sharp';
import type { PictureStream } from './picture-stream.ts';
import { RECOMMENDED } from './types.ts';

/** Pictures after which most of what swaps them has been compiled. */
const PICTURES = 60;
const STEP_MS = 1000 / RECOMMENDED.fps;

/** Sends pictures of a portrait that moves a little through a stream. */
export async function warmUpPictures(portrait: string, stream: PictureStream): Promise<void> {
  const { width, height } = RECOMMENDED;
  const views = await Promise.all(
    [0, 2, 4].map((shift) =>
      sharp(portrait)
        .resize(width, height, { fit: 'contain', background: '#808080' })
        .extend({ left: shift, background: '#808080' })
        .resize(width, height, { fit: 'cover' })
        .toColourspace('srgb')
        .jpeg()
        .toBuffer(),
    ),
  );
  for (let i = 0; i < PICTURES; i++) {
    await stream.transform(views[i % views.length] as Buffer, i * STEP_MS);
  }
}
