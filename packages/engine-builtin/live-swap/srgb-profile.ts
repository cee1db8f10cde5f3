const HEADER_BYTES = 128;
const TAG_BYTES = 12;
const MOST_TAGS = 100;

/**
 * Whether a colour profile says that it is sRGB (ICC.1:2022, 9.2.41), as browsers and cameras write it. One that says so
 * wrongly gives its sender other colours, and nobody else anything.
 */
export function describesSrgb(profile: Buffer): boolean {
  if (profile.length < HEADER_BYTES + 4) return false;
  const tags = Math.min(profile.readUInt32BE(HEADER_BYTES), MOST_TAGS);
  for (let tag = 0; tag < tags; tag++) {
    const at = HEADER_BYTES + 4 + tag * TAG_BYTES;
    if (at + TAG_BYTES > profile.length) return false;
    if (profile.toString('latin1', at, at + 4) !== 'desc') continue;
    const from = profile.readUInt32BE(at + 4);
    const text = profile.subarray(from, from + profile.readUInt32BE(at + 8));
    // ASCII in version 2, UTF-16 in version 4.
    return text.toString('latin1').replaceAll('\0', '').includes('sRGB');
  }
  return false;
}
