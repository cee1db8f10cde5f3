import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';

export interface Asked {
  readonly headers: IncomingMessage['headers'];
  readonly request: Record<string, unknown>;
  /** Content type and bytes of each part, by its name. */
  readonly files: Record<string, { type: string; bytes: Buffer }>;
}

export interface Answer {
  readonly status?: number;
  readonly body?: string;
  readonly headers?: Record<string, string>;
  /** Promise that the answer waits for. */
  readonly after?: Promise<unknown>;
  /** Whether the service never answers. */
  readonly hangs?: boolean;
}

/** Starts a content check as an owner would write it: it reads the form and gives scripted answers. */
export async function startCheckService() {
  const asked: Asked[] = [];
  let answers: ((asked: Asked) => Answer) | Answer[] = [];
  const server = createServer(async (incoming, response) => {
    // A caller that goes away while it sends asks nothing.
    const body = await buffer(incoming).catch(() => undefined);
    if (!body) return;
    const type = incoming.headers['content-type'] ?? '';
    const form = await new Response(new Uint8Array(body), { headers: { 'content-type': type } }).formData();
    const files: Asked['files'] = {};
    let request = {};
    for (const [name, value] of form) {
      const file = value as File;
      const bytes = Buffer.from(await file.arrayBuffer());
      if (name === 'request') request = JSON.parse(bytes.toString());
      else files[name] = { type: file.type, bytes };
    }
    const seen = { headers: incoming.headers, request, files };
    asked.push(seen);
    const answer = typeof answers === 'function' ? answers(seen) : (answers.shift() ?? {});
    if (answer.hangs) return;
    await answer.after;
    response.writeHead(answer.status ?? 200, { 'content-type': 'application/json', ...answer.headers });
    response.end(answer.body ?? '{"verdict":"allow"}');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    asked,
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/check`,
    /** Sets the next answers: a list that is followed by `allow`, or a function of the request. */
    answer(next: typeof answers) {
      asked.length = 0;
      answers = next;
    },
    close() {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    },
  };
}

export type CheckService = Awaited<ReturnType<typeof startCheckService>>;
