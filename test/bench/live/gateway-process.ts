import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { GATEWAY_FLAGS } from '@semblance/gateway/node-flags';
import { choosePorts } from '@semblance/local/process/ports';
import { eventually } from '@semblance/testkit/stack/eventually';
import { root } from '@semblance/testkit/stack/stack-process';

export interface GatewayProcess {
  readonly baseUrl: string;
  readonly pid: number;
  /** Returns the lag of the event loop (by how much timers are late) since the last call, in ms. */
  loopLag(): Promise<{ p50: number; p99: number; max: number }>;
  stop(): Promise<void>;
}

/** Interval at which prom-client samples the loop, in ms; its figures contain this interval. */
const RESOLUTION_MS = 10;

/** Starts a real gateway in a separate process, before the given control plane. */
export async function startGatewayProcess(controlPort: number): Promise<GatewayProcess> {
  const folder = await mkdtemp(join(tmpdir(), 'semblance-bench-'));
  const ports = await choosePorts(['gateway', 'health']);
  const origin = `http://127.0.0.1:${ports.gateway}`;
  const child: ChildProcess = spawn(process.execPath, [...GATEWAY_FLAGS, join(root, 'gateway/main.ts')], {
    stdio: ['pipe', 'ignore', 'inherit'],
    env: {
      ...process.env,
      NODE_ENV: 'production',
      SEMBLANCE_GATEWAY_LISTEN: `127.0.0.1:${ports.gateway}`,
      SEMBLANCE_HEALTH_LISTEN: `127.0.0.1:${ports.health}`,
      SEMBLANCE_CONTROL_ADDRESS: `127.0.0.1:${controlPort}`,
      SEMBLANCE_OBJECTS_URL: `file://${folder}`,
      SEMBLANCE_OBJECTS_SIGNING_KEY: randomBytes(32).toString('hex'),
      SEMBLANCE_PUBLIC_URL: origin,
      SEMBLANCE_EXIT_ON_STDIN_EOF: '1',
    },
  });
  const health = `http://127.0.0.1:${ports.health}`;
  await eventually('the gateway to be ready', async () => {
    if (child.exitCode !== null) throw new Error('the gateway ended at start');
    return (await fetch(`${health}/readyz`).catch(() => undefined))?.ok || undefined;
  });
  return {
    baseUrl: `${origin}/api/v1`,
    pid: child.pid as number,
    async loopLag() {
      const text = await (await fetch(`${health}/metrics`)).text();
      const of = (name: string) => {
        const found = new RegExp(`^nodejs_eventloop_lag_${name}_seconds\\{[^}]*\\} (\\S+)$`, 'm').exec(text);
        return Math.max(0, Number(found?.[1]) * 1000 - RESOLUTION_MS);
      };
      return { p50: of('p50'), p99: of('p99'), max: of('max') };
    },
    async stop() {
      const exited = once(child, 'exit');
      child.kill('SIGTERM');
      await exited;
      await rm(folder, { recursive: true, force: true });
    },
  };
}
