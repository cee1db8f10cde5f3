import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Picture } from '@semblance/engine-api/picture';
import type { Face } from '@semblance/vision/face-mesh';
import sharp from 'sharp';

const CELL = 224;

/**
 * Returns a face and its surroundings as one picture of a contact sheet.
 * @param widths side of the picture, in widths of the face
 */
export async function cell(picture: Picture, face: Face, widths = 1.9): Promise<Buffer> {
  const side = Math.round(face.width * widths);
  const left = Math.round((face.points[4 * 3] as number) - side / 2);
  const top = Math.round((face.points[4 * 3 + 1] as number) - side * 0.55);
  const x = Math.max(0, left);
  const y = Math.max(0, top);
  return sharp(picture.data, { raw: { width: picture.width, height: picture.height, channels: 3 } })
    .extract({
      left: x,
      top: y,
      width: Math.min(picture.width, left + side) - x,
      height: Math.min(picture.height, top + side) - y,
    })
    .resize(CELL, CELL, { fit: 'contain', kernel: 'lanczos3' })
    .png()
    .toBuffer();
}

/**
 * Lays pictures out nine to a row (three swaps: source, base, result).
 * @returns path of the written file
 */
export async function contactSheet(cells: readonly Buffer[], directory: string): Promise<string> {
  await mkdir(directory, { recursive: true });
  const perRow = 9;
  const rows = Math.ceil(cells.length / perRow);
  const path = join(directory, 'photo-swap-contact-sheet.png');
  await sharp({ create: { width: perRow * CELL, height: rows * CELL, channels: 3, background: '#202020' } })
    .composite(
      cells.map((input, i) => ({ input, left: (i % perRow) * CELL, top: Math.floor(i / perRow) * CELL })),
    )
    .png()
    .toFile(path);
  return path;
}
