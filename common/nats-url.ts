/**
 * Connection options for a NATS URL. The client takes no credentials from a URL, so `nats://user:password@host:port`
 * and `nats://token@host:port` (a list of them is separated by commas) are taken apart here.
 */
export function natsOptions(url: string): {
  servers: string[];
  user?: string;
  pass?: string;
  token?: string;
} {
  const urls = url.split(',').map((part) => new URL(part.trim()));
  const user = decodeURIComponent(urls[0]?.username ?? '');
  const pass = decodeURIComponent(urls[0]?.password ?? '');
  const servers = urls.map(({ protocol, host }) => `${protocol}//${host}`);
  if (pass) return { servers, user, pass };
  return user ? { servers, token: user } : { servers };
}
