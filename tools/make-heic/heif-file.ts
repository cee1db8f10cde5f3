/** Writes HEIF files (ISO/IEC 23008-12) of pictures coded in HEVC. */

/** A coded picture: its NAL units with lengths, and the configuration record of its decoder. */
export interface Coded {
  readonly width: number;
  readonly height: number;
  readonly depth: 8 | 10;
  readonly hvcC: Buffer;
  readonly data: Buffer;
}

export interface HeifPicture {
  /** Tiles in rows, all of one size; a single one is the picture itself. */
  readonly tiles: readonly Coded[];
  readonly columns: number;
  /** Size of the picture before it is turned; less than the tiles cover, at the right and below. */
  readonly width: number;
  readonly height: number;
  readonly alpha?: Coded;
  /** Quarter turns against the clock. */
  readonly turns?: 0 | 1 | 2 | 3;
  /** Whether left and right change places, after the turns. */
  readonly mirrored?: boolean;
  readonly profile?: Uint8Array;
  /** Primaries, transfer and matrix of ISO/IEC 23091-2; full range. */
  readonly nclx?: readonly [number, number, number];
  /** Exif data from the TIFF header on. */
  readonly exif?: Uint8Array;
  readonly brand?: 'heic' | 'heix';
}

const u8 = (...values: number[]) => Buffer.from(values);
const u16 = (value: number) => Buffer.from([value >> 8, value & 255]);
const u32 = (value: number) => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
};
const text = (value: string) => Buffer.from(value, 'latin1');
const box = (type: string, ...parts: Uint8Array[]) => {
  const body = Buffer.concat(parts);
  return Buffer.concat([u32(body.length + 8), text(type), body]);
};
const fullBox = (type: string, version: number, flags: number, ...parts: Uint8Array[]) =>
  box(type, u32((version << 24) | flags), ...parts);

interface Item {
  readonly id: number;
  readonly type: string;
  readonly data: Buffer;
  /** Whether the data is in the header (`idat`) and not among the media data. */
  readonly inline?: boolean;
  readonly hidden?: boolean;
  /** Properties: box, and whether a reader that does not know it must give up. */
  readonly properties: readonly (readonly [Buffer, boolean])[];
}

const ALPHA = 'urn:mpeg:hevc:2015:auxid:1';

export function heifFile(picture: HeifPicture): Buffer {
  const { tiles, columns, width, height, brand = 'heic' } = picture;
  const [first] = tiles;
  if (!first) throw new RangeError('a picture has at least one tile');
  const shown = sharedProperties(picture, first);
  const items: Item[] = [];
  const references: Buffer[] = [];
  const coded = (id: number, { data, hvcC, ...size }: Coded, more: Item['properties'], hidden: boolean) =>
    items.push({ id, type: 'hvc1', data, hidden, properties: [[hvcC, true], [ispe(size), false], ...more] });

  const primary = tiles.length > 1 ? tiles.length + 1 : 1;
  if (tiles.length === 1) coded(1, first, shown, false);
  else {
    for (const [index, tile] of tiles.entries()) coded(index + 1, tile, [], true);
    const grid = [u8(0, 0, tiles.length / columns - 1, columns - 1), u16(width), u16(height)];
    const properties: Item['properties'] = [[ispe({ width, height }), false], ...shown];
    items.push({ id: primary, type: 'grid', data: Buffer.concat(grid), inline: true, properties });
    references.push(box('dimg', u16(primary), u16(tiles.length), ...tiles.map((_, index) => u16(index + 1))));
  }
  if (picture.alpha) {
    const id = primary + 1;
    const turned = shown.filter(([property]) => /irot|imir/.test(property.toString('latin1', 4, 8)));
    const auxiliary = fullBox('auxC', 0, 0, text(`${ALPHA}\0`));
    coded(id, picture.alpha, [[auxiliary, true], [pixi(1, picture.alpha.depth), false], ...turned], true);
    references.push(box('auxl', u16(id), u16(1), u16(primary)));
  }
  if (picture.exif) {
    const id = primary + 2;
    items.push({ id, type: 'Exif', data: Buffer.concat([u32(0), picture.exif]), properties: [] });
    references.push(box('cdsc', u16(id), u16(1), u16(primary)));
  }
  const types = box('ftyp', text(brand), u32(0), text(`mif1miaf${brand}`));
  // The header has the same length whatever the positions in it are.
  const length = types.length + header(items, references, primary, 0).length + 8;
  const body = items.filter(({ inline }) => !inline).map(({ data }) => data);
  return Buffer.concat([types, header(items, references, primary, length), box('mdat', ...body)]);
}

function sharedProperties(picture: HeifPicture, { depth }: Coded): (readonly [Buffer, boolean])[] {
  const { turns = 0, mirrored, profile, nclx } = picture;
  const properties: (readonly [Buffer, boolean])[] = [[pixi(3, depth), false]];
  if (profile) properties.push([box('colr', text('prof'), profile), false]);
  if (nclx) properties.push([box('colr', text('nclx'), ...nclx.map(u16), u8(0x80)), false]);
  if (turns > 0) properties.push([box('irot', u8(turns)), true]);
  if (mirrored) properties.push([box('imir', u8(1)), true]);
  return properties;
}

const ispe = ({ width, height }: { width: number; height: number }) =>
  fullBox('ispe', 0, 0, u32(width), u32(height));
const pixi = (channels: number, depth: number) =>
  fullBox('pixi', 0, 0, u8(channels, ...new Array<number>(channels).fill(depth)));

/** @param start position of the media data in the file */
function header(items: readonly Item[], references: readonly Buffer[], primary: number, start: number) {
  const properties: Buffer[] = [];
  const numberOf = (property: Buffer) => {
    const at = properties.findIndex((known) => known.equals(property));
    return at >= 0 ? at + 1 : properties.push(property);
  };
  const associations = items
    .filter(({ properties: own }) => own.length > 0)
    .map(({ id, properties: own }) => {
      const numbers = own.map(([property, essential]) => numberOf(property) | (essential ? 0x80 : 0));
      return Buffer.concat([u16(id), u8(numbers.length, ...numbers)]);
    });
  let at = start;
  const places = items.map(({ id, data, inline }) => {
    const offset = inline ? 0 : at;
    if (!inline) at += data.length;
    return Buffer.concat([u16(id), u16(inline ? 1 : 0), u16(0), u16(1), u32(offset), u32(data.length)]);
  });
  const entries = items.map(({ id, type, hidden }) =>
    fullBox('infe', 2, hidden ? 1 : 0, u16(id), u16(0), text(`${type}\0`)),
  );
  return fullBox(
    'meta',
    ...([0, 0] as const),
    fullBox('hdlr', 0, 0, u32(0), text('pict'), Buffer.alloc(13)),
    fullBox('pitm', 0, 0, u16(primary)),
    fullBox('iloc', 1, 0, u8(0x44, 0), u16(items.length), ...places),
    fullBox('iinf', 0, 0, u16(items.length), ...entries),
    ...(references.length > 0 ? [fullBox('iref', 0, 0, ...references)] : []),
    box('iprp', box('ipco', ...properties), fullBox('ipma', 0, 0, u32(associations.length), ...associations)),
    box('idat', ...items.filter(({ inline }) => inline).map(({ data }) => data)),
  );
}
