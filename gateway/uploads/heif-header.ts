/** Reads the header of a HEIF file (ISO/IEC 23008-12) far enough to say whether agents can decode its picture. */

/** Coded items that agents decode. */
const CODECS = new Set(['hvc1', 'av01']);
/** Items that are made of coded ones. */
const DERIVED = new Set(['grid', 'iden', 'iovl']);
/** Transfer characteristics PQ and HLG, and the primaries of BT.2020 (ISO/IEC 23091-2). */
const HDR = new Set([16, 18]);
const BT2020 = 9;
/** Most boxes that are looked at. */
const MAX_BOXES = 4_096;

interface Box {
  readonly type: string;
  readonly body: Buffer;
}

/**
 * Returns why the picture cannot be decoded, as a sentence; undefined when it can be, or when the header goes on
 * after these bytes.
 */
export function heifFault(head: Buffer): string | undefined {
  try {
    return faultIn(head);
  } catch (error) {
    // A number is missing where a box ends: the decoder says what is wrong with it.
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

function faultIn(head: Buffer): string | undefined {
  const meta = boxesOf(head).find(({ type }) => type === 'meta');
  if (!meta) return undefined;
  const boxes = boxesOf(meta.body.subarray(4));
  const find = (type: string, among = boxes) => among.find((box) => box.type === type)?.body;
  const [pitm, iinf, iprp] = [find('pitm'), find('iinf'), find('iprp')];
  if (!pitm || !iinf || !iprp) return undefined;
  const primary = pitm[0] === 0 ? pitm.readUInt16BE(4) : pitm.readUInt32BE(4);
  const types = itemTypes(iinf);
  const type = types.get(primary);
  if (type === undefined) return 'The picture has no main picture in it.';
  if (!CODECS.has(type) && !DERIVED.has(type)) return unknownCodec(type);
  if (DERIVED.has(type) && ![...types.values()].some((other) => CODECS.has(other)))
    return unknownCodec(
      [...types.values()].find((other) => /^(vvc1|evc1|j2k1|jpeg|unci|avc1)$/.test(other)) ?? type,
    );
  const [ipco, ipma] = [find('ipco', boxesOf(iprp)), find('ipma', boxesOf(iprp))];
  if (!ipco || !ipma) return undefined;
  const properties = boxesOf(ipco);
  return colourFault(associated(ipma, primary).flatMap((index) => properties[index - 1] ?? []));
}

const unknownCodec = (type: string) =>
  `The picture is coded in a way (${/^[\w ]{4}$/.test(type) ? type.trim() : 'unknown'}) that is not accepted: send it as HEIC with HEVC, AVIF or JPEG.`;

function colourFault(properties: readonly Box[]): string | undefined {
  const colours = properties.filter(({ type }) => type === 'colr').map(({ body }) => body);
  const named = colours.find((body) => body.toString('latin1', 0, 4) === 'nclx');
  if (!named || named.length < 10) return undefined;
  if (HDR.has(named.readUInt16BE(6)))
    return 'The picture is of high dynamic range (PQ or HLG): send it in sRGB or Display P3.';
  if (named.readUInt16BE(4) === BT2020 && colours.length === 1)
    return 'The picture has the colours of BT.2020 without a profile: send it in sRGB or Display P3.';
  return undefined;
}

/** Returns the boxes that are whole in these bytes. */
function boxesOf(bytes: Buffer): Box[] {
  const boxes: Box[] = [];
  for (let at = 0; at + 8 <= bytes.length && boxes.length < MAX_BOXES; ) {
    const size = bytes.readUInt32BE(at);
    if (size < 8 || at + size > bytes.length) break;
    boxes.push({ type: bytes.toString('latin1', at + 4, at + 8), body: bytes.subarray(at + 8, at + size) });
    at += size;
  }
  return boxes;
}

/** Item id → type, of `iinf`. */
function itemTypes(iinf: Buffer): Map<number, string> {
  const types = new Map<number, string>();
  for (const { type, body } of boxesOf(iinf.subarray(iinf[0] === 0 ? 6 : 8))) {
    const version = body[0] ?? 0;
    if (type !== 'infe' || version < 2 || body.length < (version > 2 ? 14 : 12)) continue;
    const wide = version > 2;
    const at = wide ? 10 : 8;
    types.set(wide ? body.readUInt32BE(4) : body.readUInt16BE(4), body.toString('latin1', at, at + 4));
  }
  return types;
}

/** Returns the numbers of the properties, from 1 on, that `ipma` gives to an item. @throws RangeError at its end */
function associated(ipma: Buffer, item: number): number[] {
  const wideIds = ipma.readUInt8(0) > 0;
  const wideNumbers = (ipma.readUInt8(3) & 1) === 1;
  let at = 8;
  for (let left = Math.min(ipma.readUInt32BE(4), MAX_BOXES); left > 0; left--) {
    const id = wideIds ? ipma.readUInt32BE(at) : ipma.readUInt16BE(at);
    at += wideIds ? 4 : 2;
    const count = ipma.readUInt8(at++);
    const numbers = Array.from({ length: count }, () => {
      // The first bit says whether a reader must know the property.
      const number = wideNumbers ? ipma.readUInt16BE(at) & 0x7fff : ipma.readUInt8(at) & 0x7f;
      at += wideNumbers ? 2 : 1;
      return number;
    });
    if (id === item) return numbers;
  }
  return [];
}
