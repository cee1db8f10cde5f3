import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { collectDefaultMetrics, Registry } from 'prom-client';
import type { ListenAddress } from './config.ts';
import { describeError } from './errors.ts';

export interface HealthOptions {
  readonly listen: ListenAddress;
  readonly service: string;
  /**
   * Named checks that must all pass for `/readyz`. A check fails by throwing an error whose message a person can
   * act on. If a passing check returns text, the text is shown in place of `ok`.
   */
  readonly ready: Readonly<Record<string, () => unknown>>;
  /** Named checks for `/healthz`. If one throws, the process should be restarted. Default: none. */
  readonly live?: Readonly<Record<string, () => unknown>>;
  readonly registry?: Registry;
}

export interface HealthServer {
  readonly port: number;
  readonly registry: Registry;
  close(): Promise<void>;
}

/** Creates a registry with the default metrics of the process, labelled with the service. */
export function createRegistry(service: string): Registry {
  const registry = new Registry();
  registry.setDefaultLabels({ service });
  collectDefaultMetrics({ register: registry });
  return registry;
}

/**
 * Serves `/healthz`, `/readyz` and `/metrics`. When a check fails the answer is 503, with one line for each check.
 */
export async function startHealthServer(options: HealthOptions): Promise<HealthServer> {
  const registry = options.registry ?? createRegistry(options.service);
  const server = createServer(async (request, response) => {
    const send = (status: number, body: string, type = 'text/plain; charset=utf-8') =>
      response.writeHead(status, { 'content-type': type }).end(body);
    try {
      const path = request.url?.split('?')[0];
      if (path === '/healthz') send(...(await report(options.live ?? {})));
      else if (path === '/readyz') send(...(await report(options.ready)));
      else if (path === '/metrics') send(200, await registry.metrics(), registry.contentType);
      else send(404, 'not found\n');
    } catch (error) {
      send(500, `${describeError(error)}\n`);
    }
  });
  await listen(server, options.listen);
  return {
    port: (server.address() as AddressInfo).port,
    registry,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function report(checks: HealthOptions['ready']): Promise<[number, string]> {
  const lines = await Promise.all(
    Object.entries(checks).map(async ([name, check]) => {
      try {
        const detail = await check();
        return { ok: true, line: `${name}: ${typeof detail === 'string' ? detail : 'ok'}` };
      } catch (error) {
        return { ok: false, line: `${name}: ${describeError(error)}` };
      }
    }),
  );
  const ok = lines.every((line) => line.ok);
  return [ok ? 200 : 503, `${[...lines.map(({ line }) => line), ok ? 'ok' : 'failing'].join('\n')}\n`];
}

/** Resolves when the server accepts connections. Rejects when it cannot listen. */
export function listen(server: Server, address: ListenAddress): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(address.port, address.host, () => {
      server.off('error', reject);
      resolve();
    });
  });
}
