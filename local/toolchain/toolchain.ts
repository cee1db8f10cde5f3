import { accessSync, constants, existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { findOnPath } from '@semblance/common/process/find-on-path';
import { buildTools } from './build.ts';
import { downloadTools, NoDownloadError } from './download.ts';
import type { Report } from './progress.ts';
import { cachedPath, checkVersion, releasedPath, TOOLS, ToolchainError, type ToolName } from './tools.ts';

export type Found = { path: string; from: 'KUBEBUILDER_ASSETS' | 'PATH' | 'cache' };

/**
 * Finds a tool without building anything: in the folder `KUBEBUILDER_ASSETS`, then on `PATH`, then in the cache.
 * Throws `ToolchainError` when the first one found is too old or cannot be run; if it were skipped silently, its
 * owner would wonder which one is used.
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
  const cached = [cachedPath(tool, env), releasedPath(tool, env)].find(isExecutable);
  return cached === undefined ? undefined : { path: cached, from: 'cache' };
}

/**
 * Returns the paths of the tools. A tool that is not found is downloaded as its project releases it, or built from
 * Go modules, once for all projects of this user. `SEMBLANCE_TOOLCHAIN=build` downloads nothing, `=download` builds
 * nothing.
 *
 * @param options.report called with the progress of builds and downloads
 * @throws ToolchainError `tool_missing`, with the ways out, when a tool is missing and there is no Go
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
    // The order of TOOLS is from quick to slow builds.
    const wanted = (Object.keys(TOOLS) as ToolName[]).filter((name) =>
      (missing as ToolName[]).includes(name),
    );
    const { released, why } = await downloaded(wanted, env, report, signal);
    const rest = wanted.filter((name) => !released.includes(name));
    if (rest.length > 0) {
      const go = env.SEMBLANCE_TOOLCHAIN === 'download' ? undefined : findOnPath('go', env.PATH);
      if (!go) throw nothingFound(rest, why);
      await buildTools({ tools: rest, go, env, report, signal });
    }
    for (const name of missing)
      paths[name] = released.includes(name) ? releasedPath(name, env) : cachedPath(name, env);
  }
  return paths as Record<Name, string>;
}

/** Returns the tools that could be downloaded, and why the others could not. */
async function downloaded(
  tools: readonly ToolName[],
  env: NodeJS.ProcessEnv,
  report: Report,
  signal: AbortSignal | undefined,
): Promise<{ released: readonly ToolName[]; why?: string }> {
  if (env.SEMBLANCE_TOOLCHAIN === 'build') return { released: [] };
  try {
    return { released: await downloadTools({ tools, env, report, ...(signal && { signal }) }) };
  } catch (error) {
    if (!(error instanceof NoDownloadError)) throw error;
    const names = tools.join(', ');
    report({
      what: names,
      step: 1,
      steps: 1,
      phase: 'no-download',
      done: 0,
      total: 0,
      elapsedMs: 0,
      detail: error.message,
    });
    return { released: tools.filter((tool) => isExecutable(releasedPath(tool, env))), why: error.message };
  }
}

function nothingFound(missing: readonly ToolName[], why?: string): ToolchainError {
  const names = [...missing].sort().join(', ');
  const one = missing.length === 1;
  return new ToolchainError(
    'tool_missing',
    `${names} ${one ? 'was' : 'were'} not found, and there is no Go to build ${one ? 'it' : 'them'} with.${why ? `\nNothing was downloaded: ${why}.` : ''} One of:
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
