import type { IncomingMessage } from 'node:http';
import { expect, it } from 'vitest';
import { networkOf } from './address.ts';

const request = (remoteAddress: string | undefined, forwarded?: string) =>
  ({
    socket: { remoteAddress },
    headers: forwarded === undefined ? {} : { 'x-forwarded-for': forwarded },
  }) as unknown as IncomingMessage;

it.each<[what: string, network: string, proxies: number, peer: string | undefined, forwarded?: string]>([
  ['the peer', '203.0.113.7', 0, '203.0.113.7'],
  ['the peer, whatever the client says', '203.0.113.7', 0, '203.0.113.7', '198.51.100.1'],
  ['the peer of a socket for both families', '203.0.113.7', 0, '::ffff:203.0.113.7'],
  ['the /64 of IPv6', '20010db800010002/64', 0, '2001:db8:1:2:3:4:5:6'],
  ['the same /64', '20010db800010002/64', 0, '2001:db8:1:2::1'],
  ['what the proxy was called from', '198.51.100.1', 1, '10.0.0.1', '192.0.2.1, 198.51.100.1'],
  [
    'what the outer of two proxies was called from',
    '192.0.2.1',
    2,
    '10.0.0.1',
    '8.8.8.8, 192.0.2.1, 10.0.0.9',
  ],
  ['an address with a port', '198.51.100.1', 1, '10.0.0.1', '198.51.100.1:4711'],
  ['an IPv6 address with a port', '20010db800000000/64', 1, '10.0.0.1', '[2001:db8::1]:4711'],
  ['the proxy, where it names no address', '10.0.0.1', 1, '10.0.0.1', 'unknown'],
  ['the proxy, where there are fewer than said', '10.0.0.1', 2, '10.0.0.1', '198.51.100.1'],
  ['the proxy, without the header', '10.0.0.1', 1, '10.0.0.1'],
  ['a socket that is gone', 'unknown', 0, undefined],
])('the network of a request is %s', (_what, network, proxies, peer, forwarded) => {
  expect(networkOf(request(peer, forwarded), proxies)).toBe(network);
});
