import { createHash } from 'node:crypto';
import { chmod, copyFile, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { run, succeeds } from '@semblance/common/process/run';
import { tailOf } from '@semblance/local/process/service';
import { progressPrinter } from '@semblance/local/toolchain/progress';
import { resolveTools } from '@semblance/local/toolchain/toolchain';
import type { ToolName } from '@semblance/local/toolchain/tools';
import { imagesFolder, openBuilder } from '../../../images/builder.ts';
import { loadArchives } from '../../../images/destination.ts';
import { checkFolder, removeFolder, takeFolder } from '../folder.ts';
import type { Cluster, ClusterOptions } from '../handle.ts';
import { dnsManifest, storageManifest, volumeFolder } from './addons.ts';
import { makeCertificates } from './certificates.ts';
import {
  type Child,
  closeEnclave,
  type Enclave,
  hostAddress,
  makeControlGroups,
  openEnclave,
  removeControlGroups,
} from './enclave.ts';
import { checkPrerequisites, SEARCH_PATH } from './prerequisites.ts';
import * as settings from './settings.ts';

const TOOLS = [
  'etcd',
  'kube-apiserver',
  'kube-controller-manager',
  'kube-scheduler',
  'kube-proxy',
  'kubelet',
  'kubectl',
  'helm',
  'coredns',
  'pause',
] as const satisfies readonly ToolName[];
type Tools = Record<(typeof TOOLS)[number], string>;

const IMAGES = { pause: 'localhost/semblance-test-pause:1', coredns: 'localhost/semblance-test-coredns:1' };
const UP_MS = 120_000;
const ENFORCER = join(import.meta.dirname, 'policies', 'main.ts');

/**
 * Starts a one-node Kubernetes as processes on this machine, in their own namespaces, with all files in one folder:
 * etcd, kube-apiserver, controller manager, scheduler, containerd, kubelet, kube-proxy, CoreDNS, and a process that
 * enforces NetworkPolicies.
 */
export async function nativeUp(options: ClusterOptions): Promise<Cluster> {
  const { dir, volumes, policies, say } = options;
  const { plugins, containerd } = checkPrerequisites();
  const tools = await resolveTools(TOOLS, { report: progressPrinter(process.stderr) });
  await nativeDown(dir);
  await takeFolder(dir);
  const begun = Date.now();
  try {
    const enclave = await openEnclave(dir, numberOf(dir), tools.pause);
    const paths = pathsOf(dir);
    const certificates = await makeCertificates(dir, enclave.address);
    await writeFile(
      paths.kubeconfig,
      settings.kubeconfigText(`https://${enclave.address}:6443`, certificates),
      { mode: 0o600 },
    );
    await writeFile(join(dir, 'containerd.toml'), settings.containerdText(paths, IMAGES.pause, plugins));
    await mkdir(join(dir, 'cni'), { recursive: true });
    await writeFile(join(dir, 'cni', '10-pods.conflist'), settings.cniText());
    await writeFile(join(dir, 'kubelet.yaml'), settings.kubeletText(paths, certificates));
    await makeControlGroups(paths.cgroup);

    const env = { ...process.env, PATH: SEARCH_PATH };
    const start = (name: string, command: string, args: readonly string[]) =>
      enclave.start(name, command, args, env);
    const node = nodeOf(dir, tools);
    say('starting etcd, kube-apiserver and containerd');
    const early = {
      etcd: await start('etcd', tools.etcd, settings.etcdArgs(dir)),
      'kube-apiserver': await start(
        'kube-apiserver',
        tools['kube-apiserver'],
        settings.apiserverArgs(enclave.address, certificates),
      ),
      containerd: await start('containerd', containerd, ['--config', join(dir, 'containerd.toml')]),
    };
    await until(dir, early, () => succeeds(node.ctr, [...node.ctrArgs, 'version'], { timeoutMs: 5_000 }));
    await node.load(await ownImages(dir, tools));
    await until(dir, early, () =>
      succeeds(tools.kubectl, ['get', '--raw', '/readyz'], {
        env: kubeEnv(paths.kubeconfig),
        timeoutMs: 5_000,
      }),
    );
    say('starting the node');
    const children = {
      ...early,
      ...(await startNode(enclave, env, tools, paths, certificates)),
      ...(policies
        ? {
            'network-policies': await start('network-policies', process.execPath, [
              ENFORCER,
              paths.kubeconfig,
            ]),
          }
        : {}),
    };
    const kubectl = (args: string[], input?: string) =>
      run(tools.kubectl, args, {
        env: kubeEnv(paths.kubeconfig),
        ...(input === undefined ? {} : { input }),
      });
    await kubectl(['apply', '-f', '-'], dnsManifest(IMAGES.coredns));
    if (volumes > 0) {
      for (let index = 0; index < volumes; index++) {
        await mkdir(volumeFolder(dir, index), { recursive: true });
        await chmod(volumeFolder(dir, index), 0o777);
      }
      await kubectl(['apply', '-f', '-'], storageManifest(dir, volumes));
    }
    const ready = ['wait', '--for=condition=Ready', `node/${settings.NODE}`, '--timeout=5s'];
    await until(dir, children, () => kubectl(ready).then(Boolean, () => false));
    const rolledOut = ['-n', 'kube-system', 'rollout', 'status', 'deployment/coredns', '--timeout=5s'];
    await until(dir, children, () => kubectl(rolledOut).then(Boolean, () => false));
    say(`the node is ready, ${Math.round((Date.now() - begun) / 1000)} s after its start`);
    return node;
  } catch (error) {
    await keepLogs(dir);
    await nativeDown(dir);
    throw error;
  }
}

async function startNode(
  enclave: Enclave,
  env: NodeJS.ProcessEnv,
  tools: Tools,
  paths: settings.Paths,
  certificates: Awaited<ReturnType<typeof makeCertificates>>,
): Promise<Record<string, Child>> {
  const start = (name: keyof Tools, args: string[]) => enclave.start(name, tools[name], args, env);
  return {
    'kube-controller-manager': await start(
      'kube-controller-manager',
      settings.controllerManagerArgs(paths, certificates),
    ),
    'kube-scheduler': await start('kube-scheduler', [
      `--kubeconfig=${paths.kubeconfig}`,
      '--leader-elect=false',
    ]),
    kubelet: await start('kubelet', settings.kubeletArgs(paths, enclave.address)),
    'kube-proxy': await start('kube-proxy', settings.proxyArgs(paths)),
  };
}

/** Returns the cluster that already runs from this folder. */
export async function nativeAt(dir: string): Promise<Cluster> {
  await readFile(pathsOf(dir).kubeconfig);
  return nodeOf(dir, await resolveTools(TOOLS, { report: progressPrinter(process.stderr) }));
}

function nodeOf(dir: string, tools: Tools): Cluster & { ctr: string; ctrArgs: string[] } {
  const { socket, kubeconfig } = pathsOf(dir);
  const { ctr } = checkPrerequisites();
  const ctrArgs = ['--address', socket, '--namespace', 'k8s.io'];
  return {
    kind: 'native',
    kubeconfig,
    node: settings.NODE,
    hostAddress: hostAddress(numberOf(dir)),
    kubectl: tools.kubectl,
    helm: tools.helm,
    ctr,
    ctrArgs,
    async kill(container) {
      await run(ctr, [...ctrArgs, 'task', 'kill', '--signal', 'SIGKILL', container]);
    },
    load: (archives) => loadArchives(archives, { socket }),
    down: () => nativeDown(dir),
  };
}

/** Ends the cluster of this folder, however the process that started it ended, and removes the folder. */
export async function nativeDown(dir: string): Promise<void> {
  await checkFolder(dir);
  await closeEnclave(dir);
  await removeControlGroups(pathsOf(dir).cgroup);
  await removeFolder(dir);
}

function pathsOf(dir: string): settings.Paths {
  return {
    dir,
    socket: join(dir, 'containerd.sock'),
    kubeconfig: join(dir, 'kubeconfig'),
    cgroup: `semblance-cluster-${numberOf(dir)}`,
  };
}

/**
 * Returns a number that is the same for the same folder, so that each run has the names and addresses of the former
 * one.
 */
function numberOf(dir: string): number {
  return createHash('sha256').update(dir).digest()[0] as number;
}

const kubeEnv = (kubeconfig: string) => ({ ...process.env, KUBECONFIG: kubeconfig });

async function ownImages(dir: string, tools: Tools): Promise<string[]> {
  await using builder = await openBuilder(imagesFolder());
  for (const name of ['pause', 'coredns'] as const) {
    const context = join(dir, 'images', name);
    await mkdir(context, { recursive: true });
    await copyFile(tools[name], join(context, name));
    await chmod(join(context, name), 0o755);
    const containerfile = join(context, 'Containerfile');
    await writeFile(containerfile, `FROM scratch\nCOPY ${name} /${name}\nENTRYPOINT ["/${name}"]\n`);
    await builder.build({ image: IMAGES[name], context, containerfile });
  }
  return builder.save(Object.values(IMAGES), join(dir, 'images'));
}

async function until(
  dir: string,
  children: Record<string, Child>,
  holds: () => Promise<boolean>,
): Promise<void> {
  const deadline = Date.now() + UP_MS;
  for (;;) {
    const dead = Object.entries(children).find(([, child]) => child.exited())?.[0];
    if (dead) throw new Error(`${dead} ended; the end of its log:\n${tailOf(join(dir, `${dead}.log`), 20)}`);
    if (await holds()) return;
    if (Date.now() > deadline) {
      const tails = Object.keys(children).map(
        (name) => `--- ${name}\n${tailOf(join(dir, `${name}.log`), 10)}`,
      );
      throw new Error(`the cluster is not up after ${UP_MS / 1000} s\n${tails.join('\n')}`);
    }
    await delay(300);
  }
}

/** Keeps the logs of a failed start, for more details than the message of the error has. */
async function keepLogs(dir: string): Promise<void> {
  const target = `${dir}-failed-logs`;
  await rm(target, { recursive: true, force: true });
  await mkdir(target, { recursive: true });
  await run('sh', ['-c', 'cp "$0"/*.log "$1"', dir, target]).catch(() => {});
}
