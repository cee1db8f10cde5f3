import { Resolver } from 'node:dns/promises';
import { isIP } from 'node:net';
import { raceAbort } from '@semblance/common/async/abort';
import { describeError } from '@semblance/common/errors';
import { Agent, buildConnector, request } from 'undici';
import { type AddressGuard, checkPort } from './addresses.ts';

export interface SenderOptions {
  readonly guard: AddressGuard;
  /** From looking up the name to the head of the answer. Default 10 s. */
  readonly timeoutMs?: number;
  /** Addresses of a host name; the signal says when nobody waits for them any more. Default: DNS. */
  readonly lookup?: (hostname: string, signal: AbortSignal) => Promise<readonly string[]>;
}

export interface Answer {
  /** Undefined when there was no answer. */
  readonly status: number | undefined;
  /** Why the attempt did not succeed; undefined for a 2xx. */
  readonly error: string | undefined;
  readonly milliseconds: number;
}

export interface Sender {
  /** POSTs a body and reports how it went, within the time limit whatever the receiver does; never throws. */
  send(url: string, body: string, headers: Readonly<Record<string, string>>): Promise<Answer>;
  close(): Promise<void>;
}

/** Time for the body of an answer. */
const BODY_MS = 1_000;

/**
 * POSTs to URLs that strangers chose. The host name is resolved here, the address checked, and that very address
 * connected to, so that a name which changes its mind (DNS rebinding) gains nothing. Redirects are not followed, answers
 * are not read.
 */
export function createSender({ guard, timeoutMs = 10_000, lookup = resolve }: SenderOptions): Sender {
  const closing = new AbortController();
  // Over HTTP/2 a receiver says how many requests it takes at once: with 0 they would wait for ever. undici looks at
  // both settings: the connector's decides what is offered to the receiver.
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
    // The limits of `send` hold instead, so that a failure has one wording.
    headersTimeout: 0,
    bodyTimeout: 0,
    maxHeaderSize: 16 * 1024,
  });

  async function pickAddress(hostname: string): Promise<string> {
    const limit = AbortSignal.any([closing.signal, AbortSignal.timeout(timeoutMs)]);
    const addresses = isIP(hostname) ? [hostname] : await raceAbort(limit, lookup(hostname, limit));
    const [first] = addresses;
    if (first === undefined) throw new Error(`${hostname} has no address`);
    // One forbidden address is enough to refuse the name: it says what the name is for.
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
        // undici heeds the signal only once the request has a connection: the limit must hold before that too.
        const answer = await raceAbort(
          signal,
          request(target, { method: 'POST', body, headers, dispatcher: agent, signal }),
        );
        const { statusCode: status, body: said } = answer;
        // What it says does not matter; a little is read, for a moment, so that the connection can be used again.
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
 * The addresses of a name, asked of the name servers directly. `dns.lookup` would hold one of the few threads that all
 * lookups of this process share for as long as a stranger's name server likes to be silent.
 * @param servers `address:port` of the name servers. Default: the system's
 */
export async function resolve(
  hostname: string,
  signal: AbortSignal,
  servers?: readonly string[],
): Promise<readonly string[]> {
  if (/(^|\.)localhost\.?$/.test(hostname)) return ['127.0.0.1'];
  // One for each name: it can be cancelled alone, and it heeds a resolv.conf that has changed.
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
