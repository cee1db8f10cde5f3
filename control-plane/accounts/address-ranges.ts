import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';

/** Most ranges of a key. */
export const MAX_RANGES = 32;

/**
 * Returns networks in their usual form, such as `192.0.2.0/24`, from networks and single addresses. IPv4 that is mapped
 * into IPv6 becomes IPv4, which is how callers' addresses are compared.
 * @throws RangeError that names the first fault
 */
export function parseRanges(texts: readonly string[]): string[] {
  if (texts.length > MAX_RANGES) throw new RangeError(`has at most ${MAX_RANGES} networks`);
  return [...new Set(texts.map(parseRange))];
}

function parseRange(text: string): string {
  const shown = JSON.stringify(text.slice(0, 60));
  const [, written = '', size] = /^([0-9a-fA-F.:]{2,45})(?:\/(\d{1,3}))?$/.exec(text.trim()) ?? [];
  const version = isIP(written);
  if (version === 0)
    throw new RangeError(`has addresses and networks such as 192.0.2.0/24 or 2001:db8::/32, not ${shown}`);
  const all = version === 4 ? 32 : 128;
  let bits = size === undefined ? all : Number(size);
  if (bits > all) throw new RangeError(`has no network of ${bits} bits: ${shown}`);
  const address = ipaddr.process(written);
  if (version === 6 && address.kind() === 'ipv4') {
    if (bits < 96) throw new RangeError(`mixes IPv4 and IPv6: ${shown}`);
    bits -= 96;
  }
  const network = networkOf(address, bits);
  if (network !== address.toString())
    throw new RangeError(`${shown} is an address within ${network}/${bits}: write the one or the other`);
  return `${network}/${bits}`;
}

function networkOf(address: ReturnType<typeof ipaddr.process>, bits: number): string {
  const bytes = address.toByteArray().map((byte, i) => {
    const kept = Math.min(8, Math.max(0, bits - 8 * i));
    return byte & (0xff << (8 - kept)) & 0xff;
  });
  return ipaddr.fromByteArray(bytes).toString();
}
