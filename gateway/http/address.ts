import type { IncomingMessage } from 'node:http';
import ipaddr from 'ipaddr.js';

/**
 * Returns the address that a request comes from, in its usual form; an IPv4 address that is mapped into IPv6 as IPv4.
 * Undefined: the connection is gone.
 * @param trustedProxies number of proxies before the gateway, each of which adds the address that it was called from to
 *   `X-Forwarded-For`. Entries before theirs are the client's own words.
 */
export function addressOf(request: IncomingMessage, trustedProxies: number): string | undefined {
  return sourceOf(request, trustedProxies)?.toString();
}

/**
 * Returns the network that a request comes from: its IPv4 address, or the /64 of its IPv6 address, because whoever has
 * one address there has them all. @param trustedProxies as of `addressOf`
 */
export function networkOf(request: IncomingMessage, trustedProxies: number): string {
  const source = sourceOf(request, trustedProxies);
  if (!source) return 'unknown';
  if (source.kind() === 'ipv4') return source.toString();
  return `${Buffer.from(source.toByteArray().slice(0, 8)).toString('hex')}/64`;
}

type Address = ReturnType<typeof ipaddr.process>;

function sourceOf(request: IncomingMessage, trustedProxies: number): Address | undefined {
  const peer = request.socket.remoteAddress ?? '';
  const entries = [request.headers['x-forwarded-for'] ?? []].flat().join(',').split(',');
  const named = trustedProxies > 0 ? entries.at(-trustedProxies)?.trim() : undefined;
  return parse(named) ?? parse(peer);
}

/** Some proxies write ports behind addresses, and brackets around those of IPv6. */
const WITH_PORT = /^(?:\[([^\]]+)\](?::\d+)?|([\d.]+):\d+)$/;

function parse(text: string | undefined): Address | undefined {
  if (!text) return undefined;
  const [, v6, v4] = WITH_PORT.exec(text) ?? [];
  const address = v6 ?? v4 ?? text;
  if (!ipaddr.isValid(address)) return undefined;
  return ipaddr.process(address);
}
