import sharp, { type Sharp } from 'sharp';
import { embedProfile } from '../container.ts';
import { type Nclx, openHeif } from './heif.ts';

/** Numbers of ISO/IEC 23091-2. */
const DISPLAY_P3 = 12;
const BT2020 = 9;
const HDR = new Set([16, 18]);

export interface HeifLook {
  readonly profile: Buffer | undefined;
  /** Why the colours cannot be shown as they are meant, as the end of a sentence. */
  readonly fault: string | undefined;
}

/** Returns the colours of a HEIF file, which libvips reads of profiles alone. */
export async function lookAtHeif(file: Uint8Array): Promise<HeifLook> {
  const heif = openHeif(file);
  const { profile, nclx } = heif;
  heif.close();
  return { profile: profile ?? (await profileOf(nclx)), fault: faultOf(nclx, profile !== undefined) };
}

/**
 * Returns a HEIF file as a PNG, upright, with all its bits and the profile of its colours, so that what follows is as
 * for any other picture.
 * @param limit largest number of pixels
 */
export async function asPng(file: Uint8Array, limit: number): Promise<Buffer> {
  const heif = openHeif(file);
  try {
    if (heif.width * heif.height > limit) throw new Error('Input image exceeds pixel limit');
    const { compression } = await sharp(file, { limitInputPixels: false }).metadata();
    const picture = compression === 'hevc' ? fromHevc(heif) : fromAv1(file, limit);
    const png = await picture.png({ compressionLevel: 0 }).toBuffer();
    const profile = heif.profile ?? (await profileOf(heif.nclx));
    return profile ? embedProfile(png, 'png', profile) : png;
  } finally {
    heif.close();
  }
}

function fromHevc(heif: ReturnType<typeof openHeif>): Sharp {
  const { width, height, channels, data, deep } = heif.decode();
  const pixels = deep ? new Uint16Array(data.buffer) : data;
  const picture = sharp(pixels, { raw: { width, height, channels }, limitInputPixels: false });
  return deep ? picture.toColourspace('rgb16') : picture;
}

function fromAv1(file: Uint8Array, limit: number): Sharp {
  return sharp(file, { failOn: 'error', limitInputPixels: limit, ignoreIcc: true }).keepIccProfile();
}

function faultOf(nclx: Nclx | undefined, hasProfile: boolean): string | undefined {
  if (nclx && HDR.has(nclx.transfer)) return 'is of high dynamic range (PQ or HLG)';
  if (nclx?.primaries === BT2020 && !hasProfile) return 'has the colours of BT.2020 without a profile';
  return undefined;
}

let p3: Promise<Buffer | undefined> | undefined;

/** Returns the profile of Display P3 where the file says so by number only. */
function profileOf(nclx: Nclx | undefined): Promise<Buffer | undefined> {
  if (nclx?.primaries !== DISPLAY_P3) return Promise.resolve(undefined);
  p3 ??= makeP3();
  return p3;
}

async function makeP3(): Promise<Buffer | undefined> {
  const create = { width: 1, height: 1, channels: 3, background: '#000' } as const;
  const png = await sharp({ create }).withIccProfile('p3').png().toBuffer();
  return (await sharp(png).metadata()).icc;
}
