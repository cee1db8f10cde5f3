import type { ColorTags, Size } from './types.ts';

/** Matrices that the scaler and our own conversion support; all others are converted to BT.709 while decoding. */
const KNOWN_MATRICES: ReadonlySet<string> = new Set([
  ...['bt709', 'smpte170m', 'bt470bg', 'fcc', 'smpte240m', 'bt2020nc', 'bt2020c'],
]);

/** Names that both decoders and encoders use. */
const PRIMARIES: ReadonlySet<string> = new Set([
  ...[
    'bt709',
    'bt470m',
    'bt470bg',
    'smpte170m',
    'smpte240m',
    'film',
    'bt2020',
    'smpte428',
    'smpte431',
    'smpte432',
  ],
]);
const TRANSFERS: ReadonlySet<string> = new Set([
  ...[
    'bt709',
    'bt470m',
    'bt470bg',
    'smpte170m',
    'smpte240m',
    'linear',
    'log100',
    'log316',
    'iec61966-2-4',
    'bt1361e',
  ],
  ...['iec61966-2-1', 'bt2020-10', 'bt2020-12', 'smpte2084', 'smpte428', 'arib-std-b67'],
]);

const UNSTATED: ReadonlySet<string> = new Set(['unknown', 'reserved', 'unspecified']);

/** Returns whether this matrix can be read without a converter: it is known, not stated, or RGB. */
export function isResolvable(space: string): boolean {
  return KNOWN_MATRICES.has(space) || UNSTATED.has(space) || space === 'gbr';
}

/** Returns whether a decoded frame must be converted to BT.709, because hardly any program supports its matrix. */
export const needsMatrixChange = (space: string): boolean =>
  !KNOWN_MATRICES.has(space) && !UNSTATED.has(space);

/** Returns the matrix that players assume when a file states none. */
export function assumedMatrix({ height, width }: Size): string {
  return height >= 720 || width >= 1280 ? 'bt709' : 'smpte170m';
}

/**
 * Returns the colours of the decoded frames: as stored, or of standard dynamic range if a high one is converted.
 * Missing values are filled in as players assume them, so that they stay true when the size changes.
 */
export function resolveColor(
  stored: ColorTags,
  facts: { readonly coded: Size; readonly hdr: boolean; readonly pixelFormat: string },
  toneMapping: boolean,
): ColorTags {
  if (facts.hdr && toneMapping) return { range: 'tv', space: 'bt709', primaries: 'bt709', transfer: 'bt709' };
  const rgb = /^(gbr|rgb|bgr|argb|abgr|0rgb|pal8)/.test(facts.pixelFormat) || stored.space === 'gbr';
  if (rgb) return { ...stored, range: 'tv', space: 'bt709' };
  if (needsMatrixChange(stored.space)) return { ...stored, space: 'bt709' };
  return UNSTATED.has(stored.space) ? { ...stored, space: assumedMatrix(facts.coded) } : stored;
}

/** Returns the tags in the form of an encoder; unknown names are left out. */
export function knownTags({ range, space, primaries, transfer }: ColorTags): ColorTags {
  const among = (names: ReadonlySet<string>, name: string) => (names.has(name) ? name : 'unknown');
  return {
    range: range === 'pc' ? 'pc' : 'tv',
    space: among(KNOWN_MATRICES, space),
    primaries: among(PRIMARIES, primaries),
    transfer: among(TRANSFERS, transfer),
  };
}
