import {
  type ClientRequest,
  Agent as HttpAgent,
  type IncomingHttpHeaders,
  request as requestHttp,
} from 'node:http';
import { Agent as HttpsAgent, request as requestHttps } from 'node:https';
import { ObjectStoreError } from './store.ts';

/** Longest answer, in bytes: above a page of a list of the longest possible keys. */
const MAX_ANSWER_BYTES = 4 * 1024 * 1024;
/** Most open connections; further requests wait for one of them to end. */
const MAX_SOCKETS = 64;

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

export interface SendOptions {
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal | undefined;
  /** Sends the body and ends the request, or reports why it cannot. Default: no body. */
  readonly write?: (request: ClientRequest, failed: (error: Error) => void) => void;
}

/**
 * Makes single requests to one origin, with streamed bodies and short answers. A connection serves only one
 * request. The other side may close a kept connection at the moment of its reuse, and so fail a request for no
 * reason.
 */
export class HttpExchange {
  readonly #origin: string;
  readonly #idleMs: number;
  readonly #agent: HttpAgent;
  readonly #request: typeof requestHttp;

  /** @param options.idleMs longest silence, including connecting, in ms */
  constructor(options: { readonly origin: string; readonly idleMs: number }) {
    this.#origin = options.origin;
    this.#idleMs = options.idleMs;
    const secure = options.origin.startsWith('https:');
    const settings = { keepAlive: false, maxSockets: MAX_SOCKETS };
    this.#agent = secure ? new HttpsAgent(settings) : new HttpAgent(settings);
    this.#request = secure ? requestHttps : requestHttp;
  }

  /** @throws ObjectStoreError if there is no answer; the signal's reason; the error of `write` */
  async send(method: string, path: string, options: SendOptions = {}): Promise<Answer> {
    const { headers = {}, signal, write } = options;
    signal?.throwIfAborted();
    const request = this.#request(this.#origin + path, {
      method,
      headers,
      agent: this.#agent,
      timeout: this.#idleMs,
    });
    let stop = () => {};
    try {
      return await new Promise<Answer>((resolve, reject) => {
        const fail = (cause: Error) =>
          reject(new ObjectStoreError(`the gateway at ${this.#origin} does not answer`, { cause }));
        stop = () => reject(signal?.reason as Error);
        signal?.addEventListener('abort', stop, { once: true });
        request.on('timeout', () => fail(new Error(`silent for ${this.#idleMs} ms`)));
        request.on('error', fail);
        request.on('response', (response) => {
          const parts: Buffer[] = [];
          let length = 0;
          response.on('data', (part: Buffer) => {
            parts.push(part);
            length += part.length;
            if (length > MAX_ANSWER_BYTES) fail(new Error('its answer is too long'));
          });
          response.on('error', fail);
          response.on('end', () => {
            // An answer before the body was completely sent is a refusal, whatever its status.
            const { statusCode: status = 0, headers } = response;
            if (status < 300 && !request.writableEnded) fail(new Error('it answered before it was asked'));
            else resolve({ status, headers, body: Buffer.concat(parts).toString() });
          });
        });
        if (write) write(request, reject);
        else request.end();
      });
    } finally {
      signal?.removeEventListener('abort', stop);
      request.on('error', () => {});
      request.destroy();
    }
  }

  close(): void {
    this.#agent.destroy();
  }
}
