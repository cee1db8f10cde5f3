import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import sharp from 'sharp';
import { heifFile } from './heif-file.ts';
import { codeHevc } from './hevc.ts';

/**
 * Makes the HEIC files of media/phone from two portraits, with ffmpeg and x265: `node tools/make-heic/make.ts`.
 */
const media = join(import.meta.dirname, '..', '..', 'media');
const out = join(media, 'phone');
mkdirSync(out, { recursive: true });
const source = (name: string) => sharp(readFileSync(join(media, name)));
const write = (name: string, file: Buffer) => writeFileSync(join(out, name), file);

const TILE = 256;
/** Little-endian TIFF with one entry: orientation 6. */
const EXIF_TURNED = Buffer.from('49492a0008000000010012010300010000000600000000000000', 'hex');

/** Like a phone's: tiles, turned by a quarter, Exif that says so too, and the colours of Display P3. */
async function portrait(): Promise<Buffer> {
  const p3 = await source('grace_hopper.jpg').withIccProfile('p3').png().toBuffer();
  const profile = (await sharp(p3).metadata()).icc;
  const turned = sharp(p3, { ignoreIcc: true }).rotate(270).toColourspace('srgb').removeAlpha();
  const { data, info } = await turned.raw().toBuffer({ resolveWithObject: true });
  const columns = Math.ceil(info.width / TILE);
  const rows = Math.ceil(info.height / TILE);
  const whole = sharp(data, { raw: { ...info, channels: 3 } }).extend({
    right: columns * TILE - info.width,
    bottom: rows * TILE - info.height,
    extendWith: 'copy',
  });
  const covered = await whole.raw().toBuffer({ resolveWithObject: true });
  const tiles = [];
  for (let tile = 0; tile < columns * rows; tile++) {
    const place = { left: (tile % columns) * TILE, top: Math.floor(tile / columns) * TILE };
    const cut = sharp(covered.data, { raw: covered.info }).extract({ ...place, width: TILE, height: TILE });
    const pixels = await cut.raw().toBuffer();
    tiles.push(codeHevc({ width: TILE, height: TILE, channels: 3, data: pixels }, 8));
  }
  return heifFile({
    ...{ tiles, columns, width: info.width, height: info.height, turns: 3, exif: EXIF_TURNED },
    ...(profile && { profile }),
    nclx: [12, 13, 6],
  });
}

/** Ten bits, mirrored, and Display P3 by number and not by a profile. */
async function deep(): Promise<Buffer> {
  const p3 = await source('astronaut.png').resize(256, 256).withIccProfile('p3').png().toBuffer();
  const mirrored = sharp(p3, { ignoreIcc: true }).flop().toColourspace('srgb').removeAlpha();
  const { data, info } = await mirrored.raw().toBuffer({ resolveWithObject: true });
  const tile = codeHevc({ width: info.width, height: info.height, channels: 3, data }, 10);
  return heifFile({
    ...{ tiles: [tile], columns: 1, width: info.width, height: info.height, mirrored: true, brand: 'heix' },
    nclx: [12, 13, 6],
  });
}

/** A cut-out: opaque in a circle. */
async function cutOut(): Promise<Buffer> {
  const side = 256;
  const { data } = await source('astronaut.png')
    .resize(side, side)
    .removeAlpha()
    .raw()
    .toBuffer({ resolveWithObject: true });
  const mask = Uint8Array.from({ length: side * side }, (_, i) =>
    Math.hypot((i % side) - side / 2, Math.floor(i / side) - side / 2) < side * 0.45 ? 255 : 0,
  );
  return heifFile({
    tiles: [codeHevc({ width: side, height: side, channels: 3, data }, 8)],
    alpha: codeHevc({ width: side, height: side, channels: 1, data: mask }, 8),
    ...{ columns: 1, width: side, height: side, nclx: [1, 13, 6] as const },
  });
}

write('portrait.heic', await portrait());
write('deep.heic', await deep());
write('cut-out.heic', await cutOut());
