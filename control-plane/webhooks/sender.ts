import { Resolver } from 'node:dns/promises';
import { isIP } from 'node:net';
import { raceAbort } from '@semblance/common/async/abort';
import { describeError } from '@semblance/common/errors';
import { Agent, buildConnector, request } from 'undici';
import { type AddressGuard, checkPort } from './addresses.ts';

export interface SenderOptions {
  readonly guard: AddressGuard;
  /** From the lookup of the name to the head of the answer. Default 10 s. */
  readonly timeoutMs?: number;
  /** Returns the addresses of a host name; the signal aborts when nobody waits for them. Default: DNS. */
  readonly lookup?: (hostname: string, signal: AbortSignal) => Promise<readonly string[]>;
}

export interface Answer {
  /** Undefined without an answer. */
  readonly status: number | undefined;
  /** Why the attempt failed; undefined for a 2xx. */
  readonly error: string | undefined;
  readonly milliseconds: number;
}

export interface Sender {
  /** POSTs a body and returns the result, within the time limit whatever the receiver does; never throws. */
  send(url: string, body: string, headers: Readonly<Record<string, string>>): Promise<Answer>;
  close(): Promise<void>;
}

/** Time for the body of an answer. */
const BODY_MS = 1_000;

/**
 * POSTs to URLs that strangers chose. The host name is resolved here, the address is checked, and that address is
 * connected to, so a name that changes in between (DNS rebinding) gains nothing. Redirects are not followed,
 * answers are not read.
 */
export function createSender({ guard, timeoutMs = 10_000, lookup = resolve }: SenderOptions): Sender {
  const closing = new AbortController();
  // Over HTTP/2 a receiver sets the number of simultaneous requests: with 0 they would wait for ever. undici reads
  // both settings; the connector's decides what is offered to the receiver.
  const connector = buildConnector({ timeout: timeoutMs, allowH2: false });
  const agent = new Agent({
    allowH2: false,
    connect(options, callback) {
      const hostname = options.hostname.replace(/^\[|\]$/g, '');
      pickAddress(hostname).then(
        (address) => {
          const servername = options.servername ?? (isIP(hostname) === 0 ? hostname : undefined);
          connector({ ...options, hostname: address, host: undefined, servername }, callback);
        },
        (error: Error) => callback(error, null),
      );
    },
    connections: 64,
    pipelining: 1,
    keepAliveTimeout: 4_000,
    // The limits of `send` apply instead, so that a failure has one wording.
    headersTimeout: 0,
    bodyTimeout: 0,
    maxHeaderSize: 16 * 1024,
  });

  async function pickAddress(hostname: string): Promise<string> {
    const limit = AbortSignal.any([closing.signal, AbortSignal.timeout(timeoutMs)]);
    const addresses = isIP(hostname) ? [hostname] : await raceAbort(limit, lookup(hostname, limit));
    const [first] = addresses;
    if (first === undefined) throw new Error(`${hostname} has no address`);
    // One forbidden address refuses the name, because it shows its purpose.
    for (const address of addresses) guard.check(address);
    return first;
  }

  return {
    async send(url, body, headers) {
      const began = performance.now();
      const milliseconds = () => Math.round(performance.now() - began);
      const limit = new AbortController();
      const { signal } = limit;
      const timer = setTimeout(() => limit.abort(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
      try {
        const target = new URL(url);
        checkPort(target.port);
        // undici obeys the signal only when the request has a connection; the limit must hold before that too.
        const answer = await raceAbort(
          signal,
          request(target, { method: 'POST', body, headers, dispatcher: agent, signal }),
        );
        const { statusCode: status, body: said } = answer;
        // Its content does not matter; a little is read, for a moment, so that the connection can be reused.
        const cut = setTimeout(() => said.destroy(), BODY_MS);
        await said.dump({ limit: 16_384, signal }).catch(() => {});
        clearTimeout(cut);
        const error = status >= 200 && status < 300 ? undefined : `answered ${status}`;
        return { status, error, milliseconds: milliseconds() };
      } catch (error) {
        const reason = describeError(signal.aborted ? signal.reason : error);
        return { status: undefined, error: reason.slice(0, 500), milliseconds: milliseconds() };
      } finally {
        clearTimeout(timer);
      }
    },
    async close() {
      closing.abort(new Error('the sender was closed'));
      await agent.destroy();
    },
  };
}

/**
 * Resolves a name by asking the name servers directly. `dns.lookup` would occupy one of the few threads that all
 * lookups of this process share while a stranger's name server is silent.
 * @param servers `address:port` of the name servers. Default: the system's
 */
export async function resolve(
  hostname: string,
  signal: AbortSignal,
  servers?: readonly string[],
): Promise<readonly string[]> {
  if (/(^|\.)localhost\.?$/.test(hostname)) return ['127.0.0.1'];
  // One resolver per name, because it can be cancelled alone and reads a changed resolv.conf.
  const resolver = new Resolver({ timeout: 2_000, tries: 2 });
  if (servers) resolver.setServers(servers);
  const cancel = () => resolver.cancel();
  signal.addEventListener('abort', cancel, { once: true });
  try {
    const [v4, v6] = await Promise.allSettled([resolver.resolve4(hostname), resolver.resolve6(hostname)]);
    const found = [v4, v6].flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
    if (found.length === 0 && v4.status === 'rejected') throw v4.reason;
    return found;
  } finally {
    signal.removeEventListener('abort', cancel);
  }
}
