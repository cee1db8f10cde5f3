/**
 * Connection options for a NATS URL. The client takes no credentials from a URL, so `nats://user:password@host:port`
 * and `nats://token@host:port` (a list of them is separated by commas) are taken apart here.
 *
 * `tls://` in one of them, or a file of authorities, and none is spoken to without TLS: left to itself the client would
 * speak plainly to whoever does not offer it, password included.
 * @param caFile PEM of the authorities trusted, read at each connection. Default: those of the system.
 */
export function natsOptions(
  url: string,
  caFile?: string,
): {
  servers: string[];
  user?: string;
  pass?: string;
  token?: string;
  tls?: { caFile?: string };
} {
  const urls = url.split(',').map((part) => new URL(part.trim()));
  const user = decodeURIComponent(urls[0]?.username ?? '');
  const pass = decodeURIComponent(urls[0]?.password ?? '');
  const secure = caFile !== undefined || urls.some(({ protocol }) => protocol === 'tls:');
  const to = {
    servers: urls.map(({ protocol, host }) => `${protocol}//${host}`),
    ...(secure ? { tls: caFile === undefined ? {} : { caFile } } : {}),
  };
  if (pass) return { ...to, user, pass };
  return user ? { ...to, token: user } : to;
}
