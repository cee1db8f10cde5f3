import { jpegSegments } from '@semblance/common/jpeg-segments';
import { VERSION } from '@semblance/common/version';
import { EDITED } from '@semblance/provenance/source-types';
import { xmpPacket } from '@semblance/provenance/xmp';

/** XMP mark in every picture with a swap. The pictures of a stream are no files with names. */
export const PICTURE_MARK = Buffer.from(
  xmpPacket({ digitalSourceType: EDITED, creatorTool: `Semblance ${VERSION}` }),
).toString();

const APP0 = 0xe0;
const APP1 = 0xe1;
const XMP = Buffer.from('http://ns.adobe.com/xap/1.0/\0', 'latin1');
const CONTENT = Buffer.concat([XMP, Buffer.from(PICTURE_MARK)]);
/** The mark as a segment of a JPEG (XMP specification, part 3, 1.1.3). */
const SEGMENT = Buffer.concat([
  Buffer.from([0xff, APP1, (CONTENT.length + 2) >> 8, (CONTENT.length + 2) & 0xff]),
  CONTENT,
]);

/** Returns a JPEG with the mark in place of any XMP that it has; its pixels are not decoded. */
export function markJpeg(jpeg: Uint8Array): Uint8Array {
  const bytes = Buffer.from(jpeg.buffer, jpeg.byteOffset, jpeg.byteLength);
  const parts: Buffer[] = [];
  let from = 0;
  let marked = false;
  for (const { marker, body, at } of jpegSegments(bytes)) {
    // JFIF wants its segment before all others.
    if (!marked && marker !== APP0) {
      parts.push(bytes.subarray(from, at), SEGMENT);
      from = at;
      marked = true;
    }
    if (marker !== APP1 || !body.subarray(0, XMP.length).equals(XMP)) continue;
    parts.push(bytes.subarray(from, at));
    from = at + 4 + body.length;
  }
  return Buffer.concat([...parts, bytes.subarray(from)]);
}
