import { BlockList, isIP, isIPv4 } from 'node:net';

/** The URL leads to a forbidden address. */
class ForbiddenAddressError extends Error {
  override readonly name = 'ForbiddenAddressError';
  readonly code = 'forbidden_address';
  readonly retryable = false;
}

/**
 * Non-public IPv4: IANA's special-purpose registry (RFC 6890 and successors), plus multicast and the reserved rest.
 */
const SPECIAL_IPV4 = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/3',
];

/**
 * Public ranges that lead to a cloud's own servers or to nameservers near by, which are no receivers of anybody: Azure's
 * wire server, which gives secrets to machines that ask it, and the anycast ranges of AMT and AS112 (RFC 7450, 7534, 7535).
 */
const NEAR = [
  '168.63.129.16/32',
  '192.31.196.0/24',
  '192.52.193.0/24',
  '192.175.48.0/24',
  '2620:4f:8000::/48',
];

/**
 * IPv6 is public only inside 2000::/3. These parts of it are not public, or hide another address: protocol
 * assignments with Teredo, documentation, 6to4. NAT64, mapped and local addresses lie outside 2000::/3.
 */
const SPECIAL_IPV6 = ['2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20'];

/**
 * Ports of other protocols that the fetch standard blocks, because some servers act on input that looks like HTTP.
 */
const OTHER_PROTOCOLS = new Set(
  (
    '1 7 9 11 13 15 17 19 20 21 22 23 25 37 42 43 53 69 77 79 87 95 101 102 103 104 109 110 111 113 115 117 119 123 ' +
    '135 137 139 143 161 179 389 427 465 512 513 514 515 526 530 531 532 540 548 554 556 563 587 601 636 989 990 993 ' +
    '995 1719 1720 1723 2049 3659 4045 4190 5060 5061 6000 6566 6665 6666 6667 6668 6669 6679 6697 10080'
  ).split(' '),
);

/**
 * @param port of a URL, '' for the default of its scheme @throws ForbiddenAddressError for one of another protocol
 */
export function checkPort(port: string): void {
  if (port === '0' || OTHER_PROTOCOLS.has(port))
    throw new ForbiddenAddressError(`port ${port} is one of another protocol`);
}

export interface AddressGuard {
  /** @throws ForbiddenAddressError unless the address is public or allowed by the owner */
  check(address: string): void;
}

/** Ranges such as `10.1.0.0/16` or `::1/128`, by what the service owner says of them. */
export interface OwnRanges {
  /** Non-public ranges to which webhooks may go. */
  readonly allow?: readonly string[];
  /** Ranges to which none may go, public or not, such as those of the cluster's Pods and Services. */
  readonly deny?: readonly string[];
}

/**
 * Decides to which addresses webhooks may be sent: public ones, and those that the service owner allows. Where an
 * allowed and a denied range hold an address, the narrower one decides, and of two that are equal the allowed one.
 * @throws RangeError for an invalid range
 */
export function createAddressGuard({ allow = [], deny = [] }: OwnRanges): AddressGuard {
  const [allowed, denied] = [narrowestFirst(allow), narrowestFirst(deny)];
  const special = toBlockList([...SPECIAL_IPV4, ...NEAR, ...SPECIAL_IPV6]);
  const global = toBlockList(['2000::/3']);
  return {
    check(address) {
      const plain = unmapped(address);
      const family = isIPv4(plain) ? 'ipv4' : 'ipv6';
      if (isIP(plain) === 0) throw new ForbiddenAddressError(`${address} is no address`);
      const narrowest = (ranges: readonly Range[]) => ranges.find(({ list }) => list.check(plain, family));
      const [own, refused] = [narrowest(allowed), narrowest(denied)];
      if (own && own.prefix >= (refused?.prefix ?? 0)) return;
      if (refused) throw new ForbiddenAddressError(`${address} is in a range that the owner denies`);
      if (special.check(plain, family) || (family === 'ipv6' && !global.check(plain, family)))
        throw new ForbiddenAddressError(`${address} is not a public address`);
    },
  };
}

interface Range {
  readonly prefix: number;
  readonly list: BlockList;
}

function narrowestFirst(ranges: readonly string[]): readonly Range[] {
  return ranges
    .map((range) => ({ prefix: Number(range.split('/')[1]), list: toBlockList([range]) }))
    .sort((a, b) => b.prefix - a.prefix);
}

/** Returns true for `address/prefix`. */
export function isRange(text: string): boolean {
  const [, address = '', prefix = ''] = /^([0-9a-fA-F.:]+)\/(\d{1,3})$/.exec(text) ?? [];
  const bits = { 0: -1, 4: 32, 6: 128 }[isIP(address)] ?? -1;
  return prefix !== '' && Number(prefix) <= bits;
}

function toBlockList(ranges: readonly string[]): BlockList {
  const list = new BlockList();
  for (const range of ranges) {
    if (!isRange(range)) throw new RangeError(`"${range}" is no range of addresses`);
    const [address = '', prefix] = range.split('/');
    list.addSubnet(address, Number(prefix), isIPv4(address) ? 'ipv4' : 'ipv6');
  }
  return list;
}

/** Returns the IPv4 address of an IPv4-mapped IPv6 address in any notation; any other address unchanged. */
function unmapped(address: string): string {
  if (isIP(address) !== 6 || address.includes('%')) return address;
  const canonical = new URL(`http://[${address}]`).hostname.slice(1, -1);
  const [, high, low] = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/.exec(canonical) ?? [];
  if (high === undefined || low === undefined) return address;
  const bits = Number.parseInt(high, 16) * 65_536 + Number.parseInt(low, 16);
  return [24, 16, 8, 0].map((shift) => (bits >>> shift) & 255).join('.');
}
