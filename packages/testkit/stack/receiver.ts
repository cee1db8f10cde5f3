import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface Received {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  /** Exact bytes of the body. */
  readonly body: Buffer;
}

/** Webhook endpoint of an integrator on this machine. */
export interface Receiver {
  readonly url: string;
  readonly received: readonly Received[];
  close(): Promise<void>;
}

/**
 * Starts an endpoint that answers each call with the next status, and then always with the last; 0 never answers.
 * Redirects lead to another path of the same host.
 */
export async function startReceiver(...statuses: number[]): Promise<Receiver> {
  const received: Received[] = [];
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    try {
      for await (const chunk of request) chunks.push(chunk as Buffer);
    } catch {
      // The call was cut during its transfer, so it was not received.
      return;
    }
    const before = received.length;
    const status = statuses[Math.min(before, statuses.length - 1)] ?? 200;
    const { method = '', url: path = '', headers } = request;
    received.push({ method, path, headers, body: Buffer.concat(chunks) });
    if (status)
      response.writeHead(status, status >= 300 && status < 400 ? { location: '/elsewhere' } : {}).end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hooks/semblance?for=test`,
    received,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
