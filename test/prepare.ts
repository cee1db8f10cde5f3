import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describeError } from '@semblance/common/errors';
import { progressPrinter } from '@semblance/local/toolchain/progress';
import { resolveTools } from '@semblance/local/toolchain/toolchain';
import { SERVERS, type ToolName } from '@semblance/local/toolchain/tools';
import { hasPython, pythonEnv } from '@semblance/testkit/engine-sidecar/python-env';
import { s3ServerBinary } from '@semblance/testkit/objects/s3-server';
import { readerPython } from '@semblance/testkit/provenance/read-manifest';
import { importGraph, reachedFrom } from './structure/import-graph.ts';
import { ROOT } from './structure/workspaces.ts';

/** Files that can start any server, and so say nothing of those that are needed. */
const STARTERS = /^(local\/toolchain|packages\/testkit\/servers)\//;
const ASKS = /\b(testKube|resolveTools)\(/;

/**
 * Returns the servers that tests need, by all files that they reach. Where there is no network, Kubernetes takes
 * minutes to build; it is for those that ask for it.
 */
export function serversOf(reached: readonly string[]): ToolName[] {
  if (!reached.includes('local/toolchain/toolchain.ts')) return [];
  const own = reached.filter((file) => file.endsWith('.ts') && !STARTERS.test(file));
  const needs = own.some((file) => ASKS.test(readFileSync(join(ROOT, file), 'utf8')));
  return needs ? [...SERVERS] : ['nats-server'];
}

/**
 * Builds and fetches what these test files need, and shows its progress.
 * @throws Error when a server is not available
 */
export async function prepare(files: readonly string[]): Promise<void> {
  const graph = importGraph({ types: false });
  const reached = new Set(files.flatMap((file) => [...reachedFrom(file, graph)]));
  const report = progressPrinter(process.stderr);
  const servers = serversOf([...files, ...reached]);
  if (servers.length > 0) await resolveTools(servers, { report });
  if (reached.has('packages/testkit/chart/chart.ts')) await resolveTools(['helm'], { report });
  if (reached.has('packages/testkit/objects/s3-server.ts')) await s3ServerBinary();
  if (!(await hasPython())) return;
  // These are downloads of hundreds of megabytes. If one fails, the tests that need it report that.
  const environments = [
    { file: 'packages/testkit/engine-sidecar/python-env.ts', make: pythonEnv },
    { file: 'packages/testkit/provenance/read-manifest.ts', make: readerPython },
  ];
  for (const { file, make } of environments)
    if (files.some((test) => graph.get(test)?.includes(file)))
      await make().catch((error: unknown) => console.error(describeError(error)));
}
