import type { IncomingMessage } from 'node:http';
import ipaddr from 'ipaddr.js';

/**
 * Returns the network that a request comes from: its IPv4 address, or the /64 of its IPv6 address, because whoever has
 * one address there has them all.
 * @param trustedProxies number of proxies before the gateway, each of which adds the address that it was called from to
 *   `X-Forwarded-For`. Entries before theirs are the client's own words.
 */
export function networkOf(request: IncomingMessage, trustedProxies: number): string {
  const peer = request.socket.remoteAddress ?? '';
  const entries = [request.headers['x-forwarded-for'] ?? []].flat().join(',').split(',');
  const named = trustedProxies > 0 ? entries.at(-trustedProxies)?.trim() : undefined;
  return parse(named) ?? parse(peer) ?? 'unknown';
}

/** Some proxies write ports behind addresses, and brackets around those of IPv6. */
const WITH_PORT = /^(?:\[([^\]]+)\](?::\d+)?|([\d.]+):\d+)$/;

function parse(text: string | undefined): string | undefined {
  if (!text) return undefined;
  const [, v6, v4] = WITH_PORT.exec(text) ?? [];
  const address = v6 ?? v4 ?? text;
  if (!ipaddr.isValid(address)) return undefined;
  const parsed = ipaddr.process(address);
  if (parsed.kind() === 'ipv4') return parsed.toString();
  return `${Buffer.from(parsed.toByteArray().slice(0, 8)).toString('hex')}/64`;
}
