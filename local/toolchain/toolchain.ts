import { accessSync, constants, existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { findOnPath } from '@semblance/common/process/find-on-path';
import { buildTools } from './build.ts';
import type { Report } from './progress.ts';
import { cachedPath, checkVersion, TOOLS, ToolchainError, type ToolName } from './tools.ts';

export type Found = { path: string; from: 'KUBEBUILDER_ASSETS' | 'PATH' | 'cache' };

/**
 * Finds a tool without building anything: in the folder `KUBEBUILDER_ASSETS`, then on `PATH`, then in the cache.
 * Throws `ToolchainError` when the one found first is too old or cannot be run: passing over it silently would
 * leave its owner wondering which one is used.
 */
export async function findTool(tool: ToolName, env: NodeJS.ProcessEnv): Promise<Found | undefined> {
  const assets = env.KUBEBUILDER_ASSETS;
  if (assets) {
    if (!existsSync(assets)) {
      throw new ToolchainError('tool_missing', `KUBEBUILDER_ASSETS is ${assets}, which does not exist`);
    }
    const path = join(assets, tool);
    if (isExecutable(path)) {
      await checkVersion(tool, path);
      return { path, from: 'KUBEBUILDER_ASSETS' };
    }
  }
  const onPath = findOnPath(tool, env.PATH);
  if (onPath) {
    await checkVersion(tool, onPath);
    return { path: onPath, from: 'PATH' };
  }
  const cached = cachedPath(tool, env);
  return isExecutable(cached) ? { path: cached, from: 'cache' } : undefined;
}

/**
 * Paths of the tools, each found or, once for all projects of this user, built from Go modules.
 *
 * @param options.report told what is built, how far it is and how long it takes
 * @throws ToolchainError `tool_missing` with the ways out when something is missing and there is no Go
 */
export async function resolveTools<Name extends ToolName>(
  names: readonly Name[],
  options: { env?: NodeJS.ProcessEnv; report?: Report; signal?: AbortSignal } = {},
): Promise<Record<Name, string>> {
  const { env = process.env, report = () => {}, signal } = options;
  const paths: Partial<Record<Name, string>> = {};
  const missing: Name[] = [];
  await Promise.all(
    names.map(async (name) => {
      const found = await findTool(name, env);
      if (found) paths[name] = found.path;
      else missing.push(name);
    }),
  );
  if (missing.length > 0) {
    const go = findOnPath('go', env.PATH);
    if (!go) throw nothingFound(missing);
    // In the order of TOOLS, which is the order from quick to slow.
    const wanted = (Object.keys(TOOLS) as ToolName[]).filter((name) =>
      (missing as ToolName[]).includes(name),
    );
    await buildTools({ tools: wanted, go, env, report, signal });
    for (const name of missing) paths[name] = cachedPath(name, env);
  }
  return paths as Record<Name, string>;
}

function nothingFound(missing: readonly ToolName[]): ToolchainError {
  const names = [...missing].sort().join(', ');
  const one = missing.length === 1;
  return new ToolchainError(
    'tool_missing',
    `${names} ${one ? 'was' : 'were'} not found, and there is no Go to build ${one ? 'it' : 'them'} with. One of:
  1. Install Go 1.26 or newer (https://go.dev/dl) and run this again: what is missing is built once, into a cache.
  2. Put ${one ? 'it' : 'them'} into a folder and set KUBEBUILDER_ASSETS to it, or on PATH.
  3. Set KUBECONFIG to a cluster of your own (with SEMBLANCE_NATS_URL when nats-server is missing): no Kubernetes is
     started then.`,
  );
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
