import { mkdir, writeFile } from 'node:fs/promises';
import { isIPv4 } from 'node:net';
import { join } from 'node:path';
import { findOnPath } from '@semblance/common/process/find-on-path';
import { run } from '@semblance/common/process/run';
import { progressPrinter } from '@semblance/local/toolchain/progress';
import { resolveTools } from '@semblance/local/toolchain/toolchain';
import { stringify } from 'yaml';
import { dockerAnswers } from '../../images/builder.ts';
import { loadArchives } from '../../images/destination.ts';
import { checkFolder, removeFolder, takeFolder } from './folder.ts';
import type { Cluster, ClusterOptions } from './handle.ts';
import { storageManifest, volumeFolder } from './native/addons.ts';

const KIND_NAME = 'semblance-test';
const NODE = `${KIND_NAME}-control-plane`;
/** Path of the folder of volumes in the node. */
const MOUNTED = '/semblance';

/** Tells whether Docker answers and kind is installed. */
export async function kindWorks(): Promise<boolean> {
  return findOnPath('kind') !== undefined && (await dockerAnswers());
}

/** Starts a one-node cluster in a container, with kind. */
export async function kindUp({ dir, volumes, say }: ClusterOptions): Promise<Cluster> {
  await kindDown(dir);
  await takeFolder(dir);
  for (let index = 0; index < volumes; index++)
    await mkdir(volumeFolder(dir, index), { recursive: true, mode: 0o777 });
  const config = join(dir, 'kind.yaml');
  await writeFile(
    config,
    stringify({
      kind: 'Cluster',
      apiVersion: 'kind.x-k8s.io/v1alpha4',
      nodes: [{ role: 'control-plane', extraMounts: [{ hostPath: dir, containerPath: MOUNTED }] }],
    }),
  );
  const cluster = await kindAt(dir);
  say('starting kind');
  await run('kind', [
    ...['create', 'cluster', '--name', KIND_NAME, '--config', config],
    ...['--kubeconfig', cluster.kubeconfig, '--wait', '120s'],
  ]);
  const kubectl = (args: string[], input?: string) =>
    run(cluster.kubectl, args, {
      env: { ...process.env, KUBECONFIG: cluster.kubeconfig },
      ...(input === undefined ? {} : { input }),
    });
  // kind brings its own StorageClass, but a bare cluster has none.
  await kubectl(['delete', 'storageclass', '--all']);
  if (volumes > 0) {
    const manifest = storageManifest(MOUNTED, volumes, NODE);
    await kubectl(['apply', '-f', '-'], manifest);
  }
  return cluster;
}

export async function kindAt(dir: string): Promise<Cluster> {
  const tools = await resolveTools(['kubectl', 'helm'], { report: progressPrinter(process.stderr) });
  return {
    kind: 'kind',
    kubeconfig: join(dir, 'kubeconfig'),
    node: NODE,
    hostAddress: await gatewayOfKind(),
    ...tools,
    async kill(container) {
      const ctr = ['ctr', '--namespace', 'k8s.io'];
      await run('docker', ['exec', NODE, ...ctr, 'task', 'kill', '--signal', 'SIGKILL', container]);
    },
    load: (archives) => loadArchives(archives, { kind: KIND_NAME }),
    down: () => kindDown(dir),
  };
}

export async function kindDown(dir: string): Promise<void> {
  await checkFolder(dir);
  await run('kind', ['delete', 'cluster', '--name', KIND_NAME, '--kubeconfig', join(dir, 'kubeconfig')]);
  await removeFolder(dir);
}

/** Returns the address of this machine in the network of kind's nodes, which exists once a node does. */
async function gatewayOfKind(): Promise<string> {
  const said = await run('docker', ['network', 'inspect', 'kind']).catch(() => '[]');
  const [network] = JSON.parse(said) as { IPAM: { Config: { Gateway?: string }[] } }[];
  return network?.IPAM.Config.map(({ Gateway = '' }) => Gateway).find((address) => isIPv4(address)) ?? '';
}
