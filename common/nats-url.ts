/**
 * Returns the connection options for a NATS URL, or for several separated by commas. The client takes no
 * credentials from a URL, so this function splits `nats://user:password@host:port` and `nats://token@host:port`.
 *
 * If one URL is `tls://`, or `caFile` is given, TLS is required for all servers. Otherwise the client would connect
 * without encryption to a server that offers no TLS, and send it the password.
 * @param caFile PEM file of the trusted authorities, read at each connection. Default: those of the system.
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
