/**
 * Manages a real one-node cluster by hand:
 *
 *   node test/cluster/cluster.ts up [--volumes N] [--no-policies]
 *                                                   starts a cluster and prints the path of its kubeconfig
 *   node test/cluster/cluster.ts load [--tag TAG]   builds the images and loads them into its node
 *   node test/cluster/cluster.ts kubectl …          runs kubectl for that cluster; also: helm …
 *   node test/cluster/cluster.ts down               ends it and removes all that it wrote
 *
 * The cluster runs in kind where that is installed and Docker answers, and otherwise as processes in their own
 * namespaces (root, Linux). SEMBLANCE_CLUSTER chooses one of the two (kind, native); SEMBLANCE_CLUSTER_DIR is its
 * folder.
 */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { describeError } from '@semblance/common/errors';
import { defaultTag, imageName } from '../../images/arguments.ts';
import { buildImages } from '../../images/build.ts';
import { TARGETS } from '../../images/build-options.ts';
import { imagesFolder } from '../../images/builder.ts';
import type { Cluster, ClusterOptions } from './handle.ts';
import { kindAt, kindDown, kindUp, kindWorks } from './kind.ts';
import { nativeAt, nativeDown, nativeUp } from './native/native.ts';

export const clusterDir = (env: NodeJS.ProcessEnv = process.env) =>
  env.SEMBLANCE_CLUSTER_DIR ?? join(tmpdir(), 'semblance-cluster');

async function clusterKind(env: NodeJS.ProcessEnv = process.env): Promise<'kind' | 'native'> {
  const wanted = env.SEMBLANCE_CLUSTER;
  if (wanted === 'kind' || wanted === 'native') return wanted;
  if (wanted) throw new Error(`SEMBLANCE_CLUSTER is ${wanted}; it names kind or native`);
  return (await kindWorks()) ? 'kind' : 'native';
}

/** Starts a cluster. First ends the remains of a former one in the same folder. */
export async function clusterUp(options: ClusterOptions): Promise<Cluster> {
  return (await clusterKind()) === 'kind' ? kindUp(options) : nativeUp(options);
}

/**
 * Returns the cluster that runs from this folder.
 * @throws Error when none does
 */
export async function clusterAt(dir: string): Promise<Cluster> {
  if (!existsSync(join(dir, 'kubeconfig')))
    throw new Error(`no cluster runs from ${dir}: start one with "up"`);
  return existsSync(join(dir, 'kind.yaml')) ? kindAt(dir) : nativeAt(dir);
}

export async function clusterDown(dir: string): Promise<void> {
  if (existsSync(join(dir, 'kind.yaml'))) await kindDown(dir);
  else await nativeDown(dir);
}

/** Builds the images and loads them into the cluster's node. */
export async function loadImages(
  cluster: Cluster,
  tag: string,
  say: (line: string) => void,
  signal?: AbortSignal,
): Promise<void> {
  await using builder = await buildImages({ tag, say, ...(signal ? { signal } : {}) });
  const begun = Date.now();
  const folder = await mkdtemp(join(imagesFolder(), 'archives-'));
  try {
    await cluster.load(
      await builder.save(
        TARGETS.map((target) => imageName(target, tag)),
        folder,
      ),
    );
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
  say(`loaded the images in ${Math.round((Date.now() - begun) / 1000)} s`);
}

async function main(): Promise<number> {
  const [command, ...rest] = process.argv.slice(2);
  const dir = clusterDir();
  const say = (line: string) => console.log(line);
  switch (command) {
    case 'up': {
      const { values } = parseArgs({
        args: rest,
        options: {
          volumes: { type: 'string', default: '0' },
          'no-policies': { type: 'boolean', default: false },
        },
      });
      const policies = !values['no-policies'];
      const cluster = await clusterUp({ dir, volumes: Number(values.volumes), policies, say });
      say(`export KUBECONFIG=${cluster.kubeconfig}`);
      say(`helm: ${cluster.helm}`);
      return 0;
    }
    case 'load': {
      const { values } = parseArgs({ args: rest, options: { tag: { type: 'string' } } });
      await loadImages(await clusterAt(dir), values.tag ?? (await defaultTag()), say);
      return 0;
    }
    case 'kubectl':
    case 'helm': {
      const cluster = await clusterAt(dir);
      const child = spawn(cluster[command], rest, {
        stdio: 'inherit',
        env: { ...process.env, KUBECONFIG: cluster.kubeconfig },
      });
      return new Promise((resolve) => child.once('close', (code) => resolve(code ?? 1)));
    }
    case 'down':
      await clusterDown(dir);
      return 0;
    default:
      console.error('usage: node test/cluster/cluster.ts up|load|kubectl|helm|down');
      return 2;
  }
}

if (import.meta.main) {
  main().then(
    (code) => {
      process.exitCode = code;
    },
    (error: unknown) => {
      console.error(describeError(error));
      process.exitCode = 1;
    },
  );
}
