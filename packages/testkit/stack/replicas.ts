/**
 * Runs two processes of each service as on a cluster: with the servers of the test run, behind a relay in the role
 * of a Service.
 */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { NODE_FLAGS } from '@semblance/common/node-flags';
import { createGuard } from '@semblance/common/process/guard';
import { GATEWAY_FLAGS } from '@semblance/gateway/node-flags';
import { AGENT_FLAGS } from '@semblance/gpu-agent/node-flags';
import { freePort } from '@semblance/local/process/ports';
import { testKube, testNats, testPostgres } from '../servers/shared.ts';
import { eventually } from './eventually.ts';
import { root } from './stack-process.ts';

export type ServiceName = 'control-plane' | 'operator' | 'gateway' | 'gpu-agent';
export const SERVICES: readonly ServiceName[] = ['gateway', 'control-plane', 'gpu-agent', 'operator'];
const FLAGS: Record<ServiceName, readonly string[]> = {
  'control-plane': NODE_FLAGS,
  operator: NODE_FLAGS,
  gateway: GATEWAY_FLAGS,
  'gpu-agent': AGENT_FLAGS,
};

export interface LogLine {
  readonly time: string;
  readonly pid: number;
  readonly msg: string;
  readonly [field: string]: unknown;
}

/** One of two processes. It restarts under the same name and address, as a Pod's container does. */
export interface Replica {
  readonly name: string;
  /** Port that it serves. */
  readonly port: number;
  /** Log lines of all its processes in order. */
  readonly lines: readonly LogLine[];
  /** End times of its ended processes, by pid. */
  readonly ends: ReadonlyMap<number, Date>;
  start(): Promise<void>;
  /** Sends the signal; resolves when the process has ended. */
  end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void>;
}

export type Replicas = Awaited<ReturnType<typeof startReplicas>>;

export async function startReplicas() {
  const [pg, nats, kube] = await Promise.all([testPostgres(), testNats(), testKube()]);
  const folder = await mkdtemp(join(tmpdir(), 'semblance-replicas-'));
  const guard = createGuard();
  await guard.removeOnDeath(folder);
  const adminToken = 'admin-token-of-two-replicas';
  const signingKey = '5a'.repeat(32);
  const ports: Record<ServiceName, number[]> = {
    'control-plane': [],
    operator: [],
    gateway: [],
    'gpu-agent': [],
  };
  for (const name of SERVICES) for (let i = 0; i < 2; i++) ports[name].push(await freePort());
  const gateways = await startRelay(ports.gateway);
  const control = await startRelay(ports['control-plane']);
  const origin = `http://127.0.0.1:${gateways.port}`;

  const objects = {
    SEMBLANCE_OBJECTS_SIGNING_KEY: signingKey,
    SEMBLANCE_PUBLIC_URL: origin,
    SEMBLANCE_OBJECTS_INTERNAL_URL: origin,
  };
  const cluster = { KUBECONFIG: kube.kubeconfigPath, SEMBLANCE_NAMESPACE: kube.namespace };
  const environment: Record<ServiceName, (port: number, name: string) => Record<string, string>> = {
    'control-plane': (port) => ({
      ...objects,
      ...cluster,
      // On a cluster whose gateways alone mount the volume, this is the address of the objects.
      SEMBLANCE_OBJECTS_URL: origin,
      SEMBLANCE_POSTGRES_URL: pg.url,
      SEMBLANCE_NATS_URL: nats.url,
      SEMBLANCE_CONTROL_LISTEN: `127.0.0.1:${port}`,
      SEMBLANCE_ADMIN_TOKEN: adminToken,
      SEMBLANCE_WEBHOOK_ALLOW: '127.0.0.0/8',
    }),
    operator: (port, name) => ({
      ...objects,
      ...cluster,
      SEMBLANCE_OBJECTS_URL: origin,
      SEMBLANCE_OPERATOR_LISTEN: `127.0.0.1:${port}`,
      SEMBLANCE_CONTROL_ADDRESS: `127.0.0.1:${control.port}`,
      SEMBLANCE_OPERATOR_IDENTITY: name,
    }),
    gateway: (port) => ({
      ...objects,
      SEMBLANCE_OBJECTS_URL: `file://${folder}/objects`,
      SEMBLANCE_GATEWAY_LISTEN: `127.0.0.1:${port}`,
      SEMBLANCE_CONTROL_ADDRESS: `127.0.0.1:${control.port}`,
    }),
    'gpu-agent': (port, name) => ({
      ...cluster,
      SEMBLANCE_AGENT_LISTEN: `127.0.0.1:${port}`,
      SEMBLANCE_AGENT_NAME: name,
      SEMBLANCE_AGENT_SLOTS: '1',
      SEMBLANCE_AGENT_WORK_DIR: join(folder, name),
      SEMBLANCE_AGENT_DRAIN_SECONDS: '3',
      SEMBLANCE_LIVE_VOICE_SLOTS: '0',
      SEMBLANCE_LIVE_VIDEO_SLOTS: '0',
    }),
  };

  async function replicaOf(service: ServiceName, index: number): Promise<Replica> {
    const name = `${service}-${index}`;
    const port = ports[service][index] as number;
    const health = await freePort();
    const lines: LogLine[] = [];
    const ends = new Map<number, Date>();
    let running: { child: ChildProcess; ended: Promise<unknown> } | undefined;
    return {
      name,
      port,
      lines,
      ends,
      async start() {
        const child = spawn(process.execPath, [...FLAGS[service], join(root, service, 'main.ts')], {
          // A process group lets this process end all descendants when it dies.
          detached: true,
          stdio: ['ignore', 'pipe', 'inherit'],
          env: {
            PATH: process.env.PATH,
            HOME: process.env.HOME,
            TMPDIR: tmpdir(),
            SEMBLANCE_INTERNAL_TOKEN: 'internal-token-of-two-replicas',
            SEMBLANCE_HEALTH_LISTEN: `127.0.0.1:${health}`,
            ...environment[service](port, name),
          },
        });
        const pid = child.pid as number;
        createInterface({ input: child.stdout as NodeJS.ReadableStream }).on('line', (line) => {
          if (line.startsWith('{')) lines.push(JSON.parse(line) as LogLine);
        });
        child.once('exit', () => ends.set(pid, new Date()));
        // 'exit' may come before the last output, 'close' does not.
        const ended = once(child, 'close').then(() => guard.forget(pid));
        running = { child, ended };
        await guard.watch(pid, 'SIGTERM');
        // Either outcome is correct. The time depends on the machine: eight processes start at once, and two of
        // them warm up models.
        await eventually(
          `${name} to be ready, or ended`,
          async () => {
            if (child.exitCode !== null) return 'ended';
            return (await fetch(`http://127.0.0.1:${health}/readyz`)).ok ? 'ready' : undefined;
          },
          { withinMs: Number.POSITIVE_INFINITY, everyMs: 50 },
        );
        if (child.exitCode !== null) throw new Error(`${name} ended: ${JSON.stringify(lines.slice(-3))}`);
      },
      async end(signal) {
        if (!running) return;
        const { child, ended } = running;
        running = undefined;
        child.kill(signal);
        await ended;
      },
    };
  }

  const pairs = {} as Record<ServiceName, [Replica, Replica]>;
  for (const service of SERVICES) pairs[service] = [await replicaOf(service, 0), await replicaOf(service, 1)];
  const all = SERVICES.flatMap((service) => pairs[service]);
  const close = async () => {
    // Agents end last, so that the operator has no other agent to move work to.
    for (const service of ['operator', 'gpu-agent', 'gateway', 'control-plane'] as const)
      await Promise.all(pairs[service].map((replica) => replica.end('SIGTERM')));
    await Promise.all([gateways.close(), control.close(), guard.close()]);
    await Promise.all([pg.close(), nats.close(), kube.close()]);
    await rm(folder, { recursive: true, force: true });
  };
  try {
    await Promise.all(all.map((replica) => replica.start()));
  } catch (error) {
    await close();
    throw error;
  }
  return { pairs, pg, kube, adminToken, controlPort: control.port, close };
}

/**
 * Starts a relay in the role of a Service: one address, with each connection passed to the next process that
 * accepts it.
 */
async function startRelay(ports: readonly number[]) {
  const sockets = new Set<Socket>();
  let turn = 0;
  const reach = async (): Promise<Socket | undefined> => {
    turn++;
    for (let i = 0; i < ports.length; i++) {
      const socket = connect(ports[(turn + i) % ports.length] as number, '127.0.0.1');
      const reached = await once(socket, 'connect').then(
        () => true,
        () => false,
      );
      if (reached) return socket;
    }
    return undefined;
  };
  const server = createServer({ pauseOnConnect: true }, async (near) => {
    near.on('error', () => {});
    const far = await reach();
    if (!far) {
      near.resetAndDestroy();
      return;
    }
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(from);
      from.on('error', () => to.destroy());
      from.on('close', () => {
        sockets.delete(from);
        to.destroySoon();
      });
      from.pipe(to);
    }
    near.resume();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: (server.address() as AddressInfo).port,
    close: () =>
      new Promise<void>((resolve) => {
        for (const socket of sockets) socket.destroy();
        server.close(() => resolve());
      }),
  };
}
