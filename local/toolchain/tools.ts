import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { isAbsolute, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

export type ToolName =
  | 'kube-apiserver'
  | 'etcd'
  | 'kubectl'
  | 'nats-server'
  | 'helm'
  | 'coredns'
  | 'pause'
  | 'kube-scheduler'
  | 'kube-controller-manager'
  | 'kube-proxy'
  | 'kubelet';

/** Tools for the stack on one machine and `npm test`; the others are for a cluster with a real node. */
export const SERVERS = [
  'nats-server',
  'etcd',
  'kube-apiserver',
  'kubectl',
] as const satisfies readonly ToolName[];

/** A tool, and the Go module under `modules` that pins and builds it. */
type Tool = {
  module: 'kubernetes' | 'etcd' | 'nats-server' | 'helm' | 'coredns' | 'pause';
  /** Go package of the command, as it is built from that module. */
  package: string;
  /** Arguments that print the version, and the oldest supported version (major, minor). */
  version?: { args: string[]; oldest: [number, number] };
};

export const TOOLS: Record<ToolName, Tool> = {
  'nats-server': {
    module: 'nats-server',
    package: 'github.com/nats-io/nats-server/v2',
    version: { args: ['--version'], oldest: [2, 10] },
  },
  etcd: { module: 'etcd', package: '.', version: { args: ['--version'], oldest: [3, 5] } },
  'kube-apiserver': {
    module: 'kubernetes',
    package: 'k8s.io/kubernetes/cmd/kube-apiserver',
    // The CRDs need CEL validation with ratcheting, and selectable fields of custom resources.
    version: { args: ['--version'], oldest: [1, 30] },
  },
  // Any kubectl can show a custom resource, so every version is accepted.
  kubectl: { module: 'kubernetes', package: 'k8s.io/kubernetes/cmd/kubectl' },
  pause: { module: 'pause', package: '.' },
  helm: {
    module: 'helm',
    package: 'helm.sh/helm/v3/cmd/helm',
    version: { args: ['version', '--short'], oldest: [3, 14] },
  },
  coredns: { module: 'coredns', package: '.' },
  'kube-scheduler': { module: 'kubernetes', package: 'k8s.io/kubernetes/cmd/kube-scheduler' },
  'kube-controller-manager': {
    module: 'kubernetes',
    package: 'k8s.io/kubernetes/cmd/kube-controller-manager',
  },
  'kube-proxy': { module: 'kubernetes', package: 'k8s.io/kubernetes/cmd/kube-proxy' },
  kubelet: { module: 'kubernetes', package: 'k8s.io/kubernetes/cmd/kubelet' },
};

export class ToolchainError extends Error {
  override name = 'ToolchainError';
  readonly retryable = false;
  readonly code: 'tool_missing' | 'tool_too_old' | 'tool_unusable' | 'build_failed' | 'download_refused';
  constructor(code: ToolchainError['code'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** Returns the folder with the go.mod, go.sum and sources from which a tool is built. */
export function moduleFolder(tool: ToolName): string {
  return fileURLToPath(new URL(`./modules/${TOOLS[tool].module}`, import.meta.url));
}

/** Returns the version that is built, such as `1.36.3`, from the first require in go.mod. */
export function pinnedVersion(tool: ToolName): string {
  // All of its source is in this repository, so the hash of the source is its version.
  if (tool === 'pause') {
    const source = readFileSync(join(moduleFolder(tool), 'main.go'));
    return createHash('sha256').update(source).digest('hex').slice(0, 12);
  }
  const text = readFileSync(join(moduleFolder(tool), 'go.mod'), 'utf8');
  const found = /^require \S+ v(\S+)$/m.exec(text)?.[1];
  if (!found) throw new Error(`${moduleFolder(tool)}/go.mod has no single-line require`);
  return found;
}

/**
 * Returns the cache folder: `SEMBLANCE_CACHE_DIR`, or `semblance` in the user's cache folder. A user who can have no
 * such folder, as an account without a home, gets `node_modules/.cache/semblance` of this checkout.
 */
export function cacheFolder(env: NodeJS.ProcessEnv): string {
  if (env.SEMBLANCE_CACHE_DIR) return env.SEMBLANCE_CACHE_DIR;
  const base =
    env.XDG_CACHE_HOME && isAbsolute(env.XDG_CACHE_HOME) ? env.XDG_CACHE_HOME : join(homedir(), '.cache');
  const folder = join(base, 'semblance');
  try {
    mkdirSync(folder, { recursive: true });
    return folder;
  } catch {
    return fileURLToPath(new URL('../../node_modules/.cache/semblance', import.meta.url));
  }
}

/** Returns the path of a built tool; a file there is always complete. */
export function cachedPath(tool: ToolName, env: NodeJS.ProcessEnv): string {
  const platform = `${process.platform}-${process.arch}`;
  return join(cacheFolder(env), 'toolchain', platform, `${TOOLS[tool].module}-${pinnedVersion(tool)}`, tool);
}

/** Returns the path of a tool that was downloaded in place of the version that would be built. */
export function releasedPath(tool: ToolName, env: NodeJS.ProcessEnv): string {
  const platform = `${process.platform}-${process.arch}`;
  const folder = `${TOOLS[tool].module}-${pinnedVersion(tool)}`;
  return join(cacheFolder(env), 'toolchain', platform, 'released', folder, tool);
}

/** Throws ToolchainError, with the path, when the program cannot be run or is too old for this project. */
export async function checkVersion(tool: ToolName, path: string): Promise<void> {
  const wanted = TOOLS[tool].version;
  if (!wanted) return;
  let output: string;
  try {
    const { stdout, stderr } = await promisify(execFile)(path, wanted.args, { timeout: 20_000 });
    output = stdout + stderr;
  } catch (cause) {
    throw new ToolchainError('tool_unusable', `${path} cannot be run: ${(cause as Error).message.trim()}`, {
      cause,
    });
  }
  const [, major, minor] = /v?(\d+)\.(\d+)/.exec(output) ?? [];
  if (major === undefined || minor === undefined) {
    throw new ToolchainError(
      'tool_unusable',
      `${path} does not say its version, but: ${output.trim().slice(0, 200)}`,
    );
  }
  const [oldestMajor, oldestMinor] = wanted.oldest;
  if (Number(major) < oldestMajor || (Number(major) === oldestMajor && Number(minor) < oldestMinor)) {
    throw new ToolchainError(
      'tool_too_old',
      `${path} is version ${major}.${minor}; Semblance needs ${tool} ${oldestMajor}.${oldestMinor} or newer. ` +
        'Put a newer one first, or take it off KUBEBUILDER_ASSETS and PATH, and one is built.',
    );
  }
}
