import type { Picture } from '@semblance/engine-api/picture';
import sharp from 'sharp';

/** Half the width and half the height of the microphone's head, in eye distances. */
const MICROPHONE = { rx: 0.42, ry: 0.5 };

/** Returns the RGB bytes of a picture in which a microphone stands in front of the lips. */
export async function withMicrophone(
  { width, height, data }: Picture,
  { x, y, iod }: { x: number; y: number; iod: number },
): Promise<Uint8Array> {
  const drawn = `<svg width="${width}" height="${height}">
    <rect x="${x - 0.14 * iod}" y="${y}" width="${0.28 * iod}" height="${height}" fill="#202020"/>
    <ellipse cx="${x}" cy="${y}" rx="${MICROPHONE.rx * iod}" ry="${MICROPHONE.ry * iod}" fill="#404548"/></svg>`;
  const image = await sharp(data, { raw: { width, height, channels: 3 } })
    .composite([{ input: Buffer.from(drawn) }])
    .removeAlpha()
    .raw()
    .toBuffer();
  return new Uint8Array(image);
}
