import { existsSync, statSync } from 'node:fs';
import { describeError } from '@semblance/common/errors';
import { findOnPath } from '@semblance/common/process/find-on-path';
import { CommandError, run } from '@semblance/common/process/run';
import { UsageError } from './arguments.ts';

/** Where images are loaded: into a containerd, by its socket, or into all nodes of a kind cluster. */
export type Destination = { socket: string } | { kind: string };

/** Paths at which distributions place the socket of a node's containerd. */
const KNOWN_SOCKETS = [
  '/run/containerd/containerd.sock',
  '/run/k3s/containerd/containerd.sock',
  '/var/snap/microk8s/common/run/containerd.sock',
];
const ANSWER_MS = 10_000;

export async function loadArchives(
  archives: readonly string[],
  to: Destination,
  signal?: AbortSignal,
): Promise<void> {
  for (const archive of archives) {
    if ('socket' in to)
      await run('ctr', ['--address', to.socket, '--namespace', 'k8s.io', 'images', 'import', archive], {
        signal,
      });
    else await run('kind', ['load', 'image-archive', '--name', to.kind, archive], { signal });
  }
}

/**
 * Returns the requested destination, or the only kind cluster. It is checked before anything is built.
 * @throws UsageError that says what was looked for, and what to do
 */
export async function findDestination(
  asked: { containerd?: string | undefined; kind?: string | undefined },
  env: NodeJS.ProcessEnv = process.env,
): Promise<Destination> {
  const flags = { containerd: asked.containerd, kind: asked.kind };
  const settings = { containerd: env.SEMBLANCE_CONTAINERD_SOCKET, kind: env.SEMBLANCE_KIND_CLUSTER };
  const { containerd, kind } = flags.containerd || flags.kind ? flags : settings;
  if (containerd && kind)
    throw new UsageError(
      `images go to one place: the socket ${containerd} or the kind cluster ${kind}, not both`,
    );
  if (containerd) return { socket: await checkedSocket(containerd.replace(/^unix:\/\//, ''), env) };
  const clusters = await kindClusters(env);
  if (typeof clusters === 'string') throw new UsageError(kind ? clusters : nowhere(clusters));
  if (kind) {
    if (clusters.includes(kind)) return { kind };
    throw new UsageError(
      `there is no kind cluster ${kind}: ${clusters.length > 0 ? `there are ${clusters.join(', ')}` : `make it with "kind create cluster --name ${kind}"`}`,
    );
  }
  const [only, ...others] = clusters;
  if (!only) throw new UsageError(nowhere('kind has no cluster'));
  if (others.length > 0)
    throw new UsageError(`kind has several clusters: give one of ${clusters.join(', ')} with --kind`);
  return { kind: only };
}

async function checkedSocket(socket: string, env: NodeJS.ProcessEnv): Promise<string> {
  const found = KNOWN_SOCKETS.filter((path) => path !== socket && existsSync(path));
  const elsewhere = found.length > 0 ? `; on this machine there is ${found.join(', ')}` : '';
  if (!existsSync(socket))
    throw new UsageError(`no containerd listens at ${socket}: there is no such file${elsewhere}`);
  if (!statSync(socket).isSocket()) throw new UsageError(`${socket} is no socket${elsewhere}`);
  if (!findOnPath('ctr', env.PATH))
    throw new UsageError('ctr, which gives images to a containerd, is not on PATH: it comes with containerd');
  try {
    await run('ctr', ['--address', socket, '--connect-timeout', '5s', 'version'], {
      env,
      timeoutMs: ANSWER_MS,
    });
  } catch (error) {
    const said = error instanceof CommandError ? error.output : describeError(error);
    const why = /permission denied/i.test(said)
      ? 'this user may not use it: run this as root'
      : `no containerd answers there: ${said.trim().split('\n').at(-1)}${elsewhere}`;
    throw new UsageError(`${socket}: ${why}`);
  }
  return socket;
}

/** Returns the names of the clusters, or the reason why none can be listed. */
async function kindClusters(env: NodeJS.ProcessEnv): Promise<string[] | string> {
  if (!findOnPath('kind', env.PATH)) return 'kind (https://kind.sigs.k8s.io) is not on PATH';
  try {
    const listed = await run('kind', ['get', 'clusters', '--quiet'], { env, timeoutMs: ANSWER_MS });
    return listed.split('\n').filter(Boolean);
  } catch (error) {
    return `kind cannot list its clusters (does Docker run?): ${describeError(error)}`;
  }
}

function nowhere(kind: string): string {
  const found = KNOWN_SOCKETS.filter((path) => existsSync(path));
  return [
    'nothing says to which cluster the images are to go. One of:',
    '  --containerd SOCKET   on the node itself, as root (or SEMBLANCE_CONTAINERD_SOCKET)',
    ...found.map((path) => `                        there is ${path}`),
    `  --kind NAME           a cluster of kind (or SEMBLANCE_KIND_CLUSTER); ${kind}`,
    'For a registry of yours, "npm run images:build", then tag and push them: docs/guide/platform/install.md',
  ].join('\n');
}
