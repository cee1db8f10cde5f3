import { generateKeyPairSync, randomBytes, X509Certificate } from 'node:crypto';
import { existsSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Guard } from '@semblance/common/process/guard';
import { stringify } from 'yaml';
import { httpGet } from './process/http-get.ts';
import type { ServiceSpec } from './process/service.ts';
import { writeAtomically } from './process/write-atomically.ts';

/** Longest path of a Unix socket, in bytes. The system's limit is 104 on macOS and 108 on Linux. */
const SOCKET_PATH_LIMIT = 100;
const DAY_MS = 86_400_000;

export type KubeOptions = {
  /** Absolute paths of the two servers. */
  binaries: { etcd: string; 'kube-apiserver': string };
  /** Folder of this cluster alone, for its data, keys, certificates and tokens. */
  dir: string;
  /** Port of the API server, on loopback. */
  port: number;
  guard: Guard;
  /** Namespace that the kubeconfig selects. */
  namespace?: string;
  /** False only for data that may be lost when the machine (not the process) dies, as in tests. Default true. */
  durable?: boolean;
};

/**
 * Describes a Kubernetes API without nodes: etcd and kube-apiserver as two services, with authentication and RBAC.
 *
 * - etcd is reached by Unix sockets in a folder closed to others, so it needs neither ports nor certificates.
 * - kube-apiserver makes its own authority and serving certificate. Both are renewed here before they expire.
 * - The administrator is a token, as all clients of client-go support it; `kubeconfig` (mode 0600) contains it.
 */
export function kubeServices(options: KubeOptions): {
  services: ServiceSpec[];
  kubeconfig: string;
  /** Removes the temporary socket folder. Must be called after both services have ended for good. */
  cleanUp(): Promise<void>;
} {
  const kubeconfig = join(options.dir, 'kubeconfig');
  const sockets = socketsOf(options);
  return {
    services: [etcdService(options, sockets), apiserverService(options, sockets, kubeconfig)],
    kubeconfig,
    cleanUp: sockets.cleanUp,
  };
}

function etcdService({ binaries, dir, durable = true }: KubeOptions, sockets: Sockets): ServiceSpec {
  return {
    name: 'etcd',
    async launch() {
      await mkdir(dir, { recursive: true, mode: 0o700 });
      await chmod(dir, 0o700);
      const { client, peer } = await sockets.addresses();
      return {
        command: binaries.etcd,
        args: [
          ...['--name=local', `--data-dir=${join(dir, 'etcd')}`],
          ...[`--listen-client-urls=${client}`, `--advertise-client-urls=${client}`],
          ...[
            `--listen-peer-urls=${peer}`,
            `--initial-advertise-peer-urls=${peer}`,
            `--initial-cluster=local=${peer}`,
          ],
          // kube-apiserver compacts every five minutes; the quota stops runaway growth.
          ...['--quota-backend-bytes=2147483648', '--log-level=warn', '--log-outputs=stderr'],
          ...(durable ? [] : ['--unsafe-no-fsync']),
        ],
        env: without('ETCD_'),
      };
    },
    async probe(signal) {
      const { client } = await sockets.addresses();
      const health = await httpGet({ socketPath: client.slice('unix://'.length), path: '/health', signal });
      if (!health.includes('"health":"true"')) throw new Error(`etcd says ${health}`);
    },
    stopSignal: 'SIGTERM',
    graceMs: 10_000,
    readyWithinMs: 60_000,
  };
}

function apiserverService(options: KubeOptions, sockets: Sockets, kubeconfig: string): ServiceSpec {
  const { binaries, dir, port } = options;
  const certificates = join(dir, 'certificates');
  let token = '';
  return {
    name: 'kube-apiserver',
    after: ['etcd'],
    async launch() {
      await mkdir(dir, { recursive: true, mode: 0o700 });
      const keys = await serviceAccountKey(dir);
      token = await adminToken(dir);
      await removeExpiring(certificates);
      const { client } = await sockets.addresses();
      return {
        command: binaries['kube-apiserver'],
        // Halves the frequency of garbage collection: less CPU, for memory in proportion to the live heap.
        env: { GOGC: '200', ...process.env },
        args: [
          ...[`--etcd-servers=${client}`, '--bind-address=127.0.0.1', `--secure-port=${port}`],
          // Without this flag the server looks for the address of the default route, which a machine without a
          // network lacks.
          ...['--advertise-address=127.0.0.1', '--endpoint-reconciler-type=none'],
          `--cert-dir=${certificates}`,
          ...[
            `--token-auth-file=${join(dir, 'tokens.csv')}`,
            '--anonymous-auth=false',
            '--authorization-mode=RBAC',
          ],
          ...[
            '--service-account-issuer=https://kubernetes.default.svc',
            `--service-account-key-file=${keys}`,
          ],
          ...[`--service-account-signing-key-file=${keys}`, '--service-cluster-ip-range=10.96.0.0/24'],
          ...['--profiling=false', '--v=0'],
        ],
      };
    },
    async probe(signal) {
      const ca = await readFile(join(certificates, 'apiserver.crt'));
      const headers = { authorization: `Bearer ${token}` };
      await httpGet({ host: '127.0.0.1', port, path: '/readyz', ca, headers, signal });
      await writeKubeconfig({ file: kubeconfig, port, ca, token, namespace: options.namespace });
    },
    stopSignal: 'SIGTERM',
    graceMs: 10_000,
    readyWithinMs: 120_000,
  };
}

type Sockets = { addresses(): Promise<{ client: string; peer: string }>; cleanUp(): Promise<void> };

/** Returns etcd's two sockets: in its own folder, or in a private temporary one when that path is too long. */
function socketsOf({ dir, guard }: KubeOptions): Sockets {
  const fits = Buffer.byteLength(join(dir, 'client.sock')) <= SOCKET_PATH_LIMIT;
  let short: Promise<string> | undefined;
  const makeShort = async () => {
    const folder = await mkdtemp(join(tmpdir(), 'semblance-etcd-'));
    await guard.removeOnDeath(folder);
    return folder;
  };
  return {
    async addresses() {
      if (!fits) short ??= makeShort();
      const folder = (await short) ?? dir;
      return { client: `unix://${join(folder, 'client.sock')}`, peer: `unix://${join(folder, 'peer.sock')}` };
    },
    async cleanUp() {
      if (!short) return;
      await rm(await short, { recursive: true, force: true });
      await guard.keep(await short);
    },
  };
}

async function serviceAccountKey(dir: string): Promise<string> {
  const file = join(dir, 'service-account.key');
  if (!existsSync(file)) {
    const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
    await writeAtomically(file, privateKey.export({ type: 'pkcs1', format: 'pem' }).toString());
  }
  return file;
}

async function adminToken(dir: string): Promise<string> {
  const file = join(dir, 'tokens.csv');
  if (!existsSync(file)) {
    const token = randomBytes(32).toString('base64url');
    await writeAtomically(file, `${token},semblance-admin,semblance-admin,"system:masters"\n`);
  }
  return (await readFile(file, 'utf8')).split(',', 1)[0] as string;
}

/**
 * Removes the certificates when they expire within 30 days. The API server makes one, valid for a year, only when
 * there is none.
 */
async function removeExpiring(certificates: string): Promise<void> {
  const file = join(certificates, 'apiserver.crt');
  if (!existsSync(file)) return;
  let validUntil = 0;
  try {
    validUntil = Date.parse(new X509Certificate(await readFile(file)).validTo);
  } catch {
    // A crash truncated the certificate, so it is replaced like an expired one.
  }
  if (validUntil < Date.now() + 30 * DAY_MS) await rm(certificates, { recursive: true });
}

async function writeKubeconfig(options: {
  file: string;
  port: number;
  ca: Buffer;
  token: string;
  namespace?: string;
}): Promise<void> {
  const text = stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [
      {
        name: 'semblance',
        cluster: {
          server: `https://127.0.0.1:${options.port}`,
          'certificate-authority-data': options.ca.toString('base64'),
        },
      },
    ],
    users: [{ name: 'semblance-admin', user: { token: options.token } }],
    contexts: [
      {
        name: 'semblance',
        context: { cluster: 'semblance', user: 'semblance-admin', namespace: options.namespace ?? 'default' },
      },
    ],
    'current-context': 'semblance',
  });
  const present = await readFile(options.file, 'utf8').catch(() => '');
  if (present !== text) await writeAtomically(options.file, text);
}

/** Returns this process's environment without the variables by which a server would configure itself. */
function without(prefix: string): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith(prefix)));
}
