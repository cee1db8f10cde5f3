import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { freePort } from '@semblance/local/process/ports';
import { eventually } from '../stack/eventually.ts';
import { root } from '../stack/stack-process.ts';

export interface GatewayProcess {
  readonly child: ChildProcess;
  readonly baseUrl: string;
  readonly origin: string;
  end(signal: NodeJS.Signals): Promise<void>;
}

/** Starts a gateway in a process of its own, before a control plane and a folder of objects. */
export async function startGatewayProcess(options: {
  readonly controlPort: number;
  readonly folder: string;
}): Promise<GatewayProcess> {
  const port = await freePort();
  const origin = `http://127.0.0.1:${port}`;
  const child = spawn(process.execPath, [join(root, 'gateway/main.ts')], {
    stdio: 'ignore',
    env: {
      PATH: process.env.PATH,
      SEMBLANCE_LOG_LEVEL: 'silent',
      SEMBLANCE_GATEWAY_LISTEN: `127.0.0.1:${port}`,
      SEMBLANCE_CONTROL_ADDRESS: `127.0.0.1:${options.controlPort}`,
      SEMBLANCE_OBJECTS_URL: `file://${options.folder}`,
      SEMBLANCE_OBJECTS_SIGNING_KEY: '00'.repeat(32),
      SEMBLANCE_PUBLIC_URL: origin,
    },
  });
  const baseUrl = `${origin}/api/v1`;
  await eventually('a gateway to serve', async () =>
    (await fetch(`${baseUrl}/pricing`)).ok ? true : undefined,
  );
  return {
    child,
    baseUrl,
    origin,
    async end(signal) {
      if (child.signalCode !== null || child.exitCode !== null) return;
      const ended = once(child, 'exit');
      child.kill(signal);
      await ended;
    },
  };
}
