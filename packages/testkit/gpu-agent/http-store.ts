import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { listen } from '@semblance/common/health';

export type Handler = (
  request: IncomingMessage,
  response: ServerResponse,
  nth: number,
) => void | Promise<void>;

export interface Stored {
  readonly bytes: number;
  readonly sha256: string;
  readonly headers: IncomingMessage['headers'];
}

/**
 * Starts an object store for tests: real HTTP on loopback. Objects have an ETag and support Range. A handler set
 * for a path replaces the answer, to be slow, wrong or broken.
 */
export async function startHttpStore() {
  const objects = new Map<string, Buffer>();
  const handlers = new Map<string, Handler>();
  const seen = new Map<string, number>();
  const stored = new Map<string, Stored>();
  const puts: string[] = [];

  async function take(request: IncomingMessage, path: string): Promise<void> {
    const hash = createHash('sha256');
    let bytes = 0;
    for await (const chunk of request) {
      hash.update(chunk as Buffer);
      bytes += (chunk as Buffer).length;
    }
    puts.push(path);
    stored.set(path, { bytes, sha256: hash.digest('hex'), headers: request.headers });
  }

  function serve(request: IncomingMessage, response: ServerResponse, body: Buffer): void {
    const etag = `"${createHash('sha256').update(body).digest('hex').slice(0, 16)}"`;
    const range = /^bytes=(\d+)-$/.exec(request.headers.range ?? '');
    const from = range && request.headers['if-range'] === etag ? Number(range[1]) : 0;
    const common = { etag, 'accept-ranges': 'bytes' };
    if (from > 0) {
      response.writeHead(206, {
        ...common,
        'content-length': body.length - from,
        'content-range': `bytes ${from}-${body.length - 1}/${body.length}`,
      });
    } else response.writeHead(200, { ...common, 'content-length': body.length });
    response.end(body.subarray(from));
  }

  const server: Server = createServer(async (request, response) => {
    try {
      const path = new URL(request.url ?? '', 'http://x').pathname;
      const nth = (seen.get(path) ?? 0) + 1;
      seen.set(path, nth);
      const handler = handlers.get(path);
      if (handler) return await handler(request, response, nth);
      if (request.method === 'PUT') {
        await take(request, path);
        return void response.writeHead(200).end();
      }
      const body = objects.get(path);
      if (!body) return void response.writeHead(404).end('no such key');
      serve(request, response, body);
    } catch {
      // The client disconnects half-way.
      response.destroy();
    }
  });
  await listen(server, { host: '127.0.0.1', port: 0 });
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

  return {
    origin,
    objects,
    stored,
    puts,
    url: (path: string) => `${origin}${path}`,
    on: (path: string, handler: Handler) => void handlers.set(path, handler),
    /** Returns the number of requests for the path so far. */
    count: (path: string) => seen.get(path) ?? 0,
    serve,
    take,
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

export type HttpStore = Awaited<ReturnType<typeof startHttpStore>>;
