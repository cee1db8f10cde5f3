import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';

/** Received span. */
export interface Span {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly traceState?: string;
  readonly name: string;
  readonly service: string;
  readonly attributes: Record<string, unknown>;
}

/** Starts an OpenTelemetry collector for OTLP/JSON that also receives webhooks; under /fails it answers 500. */
export async function startReceiver() {
  const spans: Span[] = [];
  const hooks: { path: string; status: number }[] = [];
  const server = createServer(async (request, response) => {
    const body = await read(request);
    if (request.url === '/v1/traces') {
      if (request.headers['content-type'] !== 'application/json') return void response.writeHead(415).end();
      for (const resource of JSON.parse(body).resourceSpans) {
        const facts = attributesOf(resource.resource.attributes);
        for (const scope of resource.scopeSpans)
          for (const span of scope.spans)
            spans.push({
              ...span,
              service: facts['service.name'],
              attributes: attributesOf(span.attributes),
            });
      }
      return void response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
    }
    const status = request.url?.startsWith('/fails') ? 500 : 204;
    hooks.push({ path: request.url ?? '', status });
    response.writeHead(status).end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    spans,
    hooks,
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function read(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

type Attribute = { key: string; value: Record<string, unknown> };

function attributesOf(list: readonly Attribute[]): Record<string, unknown> {
  return Object.fromEntries(list.map(({ key, value }) => [key, Object.values(value)[0]]));
}
