import { type IncomingHttpHeaders, request } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';

export interface ResumableAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: { file_key?: string; url?: string; error?: { code: string; message: string } };
  /** Interim responses. */
  readonly informed: readonly { readonly status: number; readonly headers: IncomingHttpHeaders }[];
}

export interface Sent {
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
  /** Number of bytes after which the connection is cut. */
  readonly dropAfter?: number;
  /** Bytes a second. Default: as fast as the connection takes them. */
  readonly rate?: number;
  /** Called with each offset that the service tells before its answer. */
  readonly onOffset?: (offset: number) => void;
}

export class DroppedError extends Error {
  override readonly name = 'DroppedError';
}

const PIECE = 64 * 1024;

/** Sends requests of resumable uploads, over connections of their own that can break. */
export function resumableClient(apiKey: string) {
  /** @throws DroppedError when the connection ended before an answer */
  async function send(
    method: string,
    url: string,
    { headers = {}, body, dropAfter, rate, onOffset }: Sent = {},
  ) {
    const informed: { status: number; headers: IncomingHttpHeaders }[] = [];
    return new Promise<ResumableAnswer>((resolve, reject) => {
      const outgoing = request(url, {
        method,
        agent: false,
        headers: {
          authorization: `Bearer ${apiKey}`,
          ...(body && { 'content-length': String(body.length) }),
          ...headers,
        },
      });
      outgoing.on('information', ({ statusCode, headers: seen }) => {
        informed.push({ status: statusCode, headers: seen as IncomingHttpHeaders });
        if (seen['upload-offset']) onOffset?.(Number(seen['upload-offset']));
      });
      outgoing.on('error', (cause) => reject(new DroppedError('the connection broke', { cause })));
      outgoing.on('response', async (response) => {
        let text = '';
        try {
          for await (const chunk of response.setEncoding('utf8')) text += chunk;
          const { statusCode: status = 0, headers: seen } = response;
          resolve({ status, headers: seen, body: text ? JSON.parse(text) : {}, informed });
        } catch (cause) {
          reject(new DroppedError('the answer broke off, or is none', { cause }));
        }
      });
      void (async () => {
        for (let at = 0; body && at < body.length; at += PIECE) {
          if (outgoing.destroyed) return;
          const end = Math.min(at + PIECE, dropAfter ?? body.length, body.length);
          const piece = Buffer.from(body.subarray(at, end));
          await new Promise<void>((written) => outgoing.write(piece, () => written()));
          if (dropAfter !== undefined && end >= dropAfter) {
            // What is on its way arrives first.
            await delay(20);
            outgoing.destroy(new Error('cut on purpose'));
            return;
          }
          if (rate) await delay((1_000 * piece.length) / rate);
        }
        outgoing.end();
      })();
    });
  }

  return {
    send,
    begin: (baseUrl: string, { complete = false, ...sent }: Sent & { complete?: boolean } = {}) =>
      send('POST', `${baseUrl}/resumable-uploads`, {
        ...sent,
        headers: {
          'upload-draft-interop-version': '8',
          'upload-complete': complete ? '?1' : '?0',
          ...sent.headers,
        },
      }),
    goOn: (url: string, offset: number, { complete = true, ...sent }: Sent & { complete?: boolean } = {}) =>
      send('PATCH', url, {
        body: new Uint8Array(0),
        ...sent,
        headers: {
          'content-type': 'application/partial-upload',
          'upload-draft-interop-version': '8',
          'upload-complete': complete ? '?1' : '?0',
          'upload-offset': String(offset),
          ...sent.headers,
        },
      }),
    async offset(url: string): Promise<number> {
      const { status, headers } = await send('HEAD', url);
      if (status !== 204) throw new Error(`HEAD answered ${status}`);
      return Number(headers['upload-offset']);
    },
  };
}
