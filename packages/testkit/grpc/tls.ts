import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ServerDuplexStream, ServiceError } from '@grpc/grpc-js';
import { call, createClient } from '@semblance/common/grpc/client';
import { type GrpcServer, startGrpcServer, unary } from '@semblance/common/grpc/server';
import {
  type Authority,
  type CertificateOrder,
  createAuthority,
  type TlsFiles,
} from '@semblance/common/grpc/tls/authority';
import { type Component, nameOf } from '@semblance/common/grpc/tls/components';
import { openTls, type Tls } from '@semblance/common/grpc/tls/tls';
import { writeTlsFiles } from '@semblance/local/stack/service-certificates';
import { ControlServiceClient, ControlServiceService } from '@semblance/proto/semblance/control/v1/control';
import { pino } from 'pino';
import { afterEach, beforeAll, beforeEach, expect } from 'vitest';
/** Test authorities for the tests of a file, with a folder and a log for each test. */
export const POLL_MS = 20;
const SERVICE = 'semblance.control.v1.ControlService';
export const DAY_MS = 86_400_000;
export const ago = (days: number) => new Date(Date.now() - days * DAY_MS);

export let authority: Authority;
export let stranger: Authority;
export let dir: string;
const lines: string[] = [];
export const logger = pino({ level: 'info' }, { write: (line: string) => void lines.push(line) });
export const opened: { close(): unknown }[] = [];

beforeAll(async () => {
  [authority, stranger] = await Promise.all([createAuthority(), createAuthority()]);
});
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'semblance-tls-'));
  lines.length = 0;
});
afterEach(async () => {
  for (const each of opened.splice(0).reverse()) await each.close();
  await rm(dir, { recursive: true });
});

export const issue = (component: Component, more: Partial<CertificateOrder> = {}, by = authority) =>
  by.issue({ names: [nameOf(component)], ...more });

/** Opens the folder that holds the files of a component. */
export async function open(
  component: Component,
  files?: TlsFiles,
  folder = component as string,
): Promise<Tls> {
  await writeTlsFiles(join(dir, folder), files ?? (await issue(component)));
  const tls = await openTls({ dir: join(dir, folder), component, logger, pollMs: POLL_MS });
  opened.push(tls);
  return tls;
}

/** Starts a server of a component. Its unary call answers and its stream echoes. */
export async function serve(tls: Tls): Promise<GrpcServer> {
  const server = await startGrpcServer({
    listen: { host: '127.0.0.1', port: 0 },
    tls,
    services: [
      {
        name: SERVICE,
        definition: ControlServiceService,
        implementation: {
          getJob: unary(logger, async ({ jobId }: { jobId: string }) => ({
            job: { id: jobId, status: 'queued' },
          })),
          watchJobs(stream: ServerDuplexStream<object, object>) {
            stream.on('data', () => stream.write({ watch: 1 }));
            stream.on('end', () => stream.end());
            stream.on('error', () => {});
          },
        },
      },
    ],
  });
  opened.push(server);
  return server;
}

export function clientOf(server: GrpcServer, secure?: ReturnType<Tls['to']>): ControlServiceClient {
  const client = createClient(ControlServiceClient, `127.0.0.1:${server.port}`, undefined, secure);
  opened.push(client);
  return client;
}

export async function ask(client: ControlServiceClient, jobId = 'job-1', timeoutMs = 10_000) {
  const request = { caller: { keySha256: Buffer.alloc(32) }, jobId };
  return (await call(client.getJob.bind(client), request, { timeoutMs })).job?.id;
}

export const failureOf = (client: ControlServiceClient): Promise<ServiceError> =>
  ask(client).then(
    (id) => expect.fail(`was answered: ${id}`),
    (error) => error,
  );

export const logged = (part: string) => lines.filter((line) => line.includes(part));
