import { lookup as systemLookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { Agent, buildConnector, request } from 'undici';
import { describeError } from '#common/errors.ts';
import type { AddressGuard } from './addresses.ts';

export interface SenderOptions {
  readonly guard: AddressGuard;
  /** From connecting to the head of the answer. Default 10 s. */
  readonly timeoutMs?: number;
  /** Addresses of a host name. Default: the system's resolver. */
  readonly lookup?: (hostname: string) => Promise<readonly { address: string }[]>;
}

export interface Answer {
  /** Undefined when there was no answer. */
  readonly status: number | undefined;
  /** Why the attempt did not succeed; undefined for a 2xx. */
  readonly error: string | undefined;
  readonly milliseconds: number;
}

export interface Sender {
  /** POSTs a body and reports how it went; never throws. */
  send(url: string, body: string, headers: Readonly<Record<string, string>>): Promise<Answer>;
  close(): Promise<void>;
}

/**
 * POSTs to URLs that strangers chose. The host name is resolved here, the address checked, and that very address
 * connected to, so that a name which changes its mind (DNS rebinding) gains nothing. Redirects are not followed, answers
 * are not read.
 */
export function createSender({ guard, timeoutMs = 10_000, lookup = resolve }: SenderOptions): Sender {
  const connector = buildConnector({ timeout: timeoutMs });
  const agent = new Agent({
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
    maxHeaderSize: 16 * 1024,
  });

  async function pickAddress(hostname: string): Promise<string> {
    const addresses = isIP(hostname) ? [{ address: hostname }] : await lookup(hostname);
    const [first] = addresses;
    if (!first) throw new Error(`${hostname} has no address`);
    // One forbidden address is enough to refuse the name: it says what the name is for.
    for (const { address } of addresses) guard.check(address);
    return first.address;
  }

  return {
    async send(url, body, headers) {
      const began = performance.now();
      const milliseconds = () => Math.round(performance.now() - began);
      const timeout = AbortSignal.timeout(timeoutMs);
      try {
        const answer = await request(url, {
          method: 'POST',
          body,
          headers,
          dispatcher: agent,
          signal: timeout,
        });
        // What it says does not matter; a little is read so that the connection can be used again.
        await answer.body.dump({ limit: 16_384, signal: timeout }).catch(() => {});
        const { statusCode: status } = answer;
        const error = status >= 200 && status < 300 ? undefined : `answered ${status}`;
        return { status, error, milliseconds: milliseconds() };
      } catch (error) {
        const reason = timeout.aborted ? `no answer within ${timeoutMs} ms` : describeError(error);
        return { status: undefined, error: reason.slice(0, 500), milliseconds: milliseconds() };
      }
    },
    close: () => agent.destroy(),
  };
}

function resolve(hostname: string): Promise<readonly { address: string }[]> {
  return systemLookup(hostname, { all: true, order: 'verbatim' });
}
