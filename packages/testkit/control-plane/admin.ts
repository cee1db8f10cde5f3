import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runAdmin } from '@semblance/control-plane/admin/run';
import { afterAll, beforeAll } from 'vitest';
import { startTestSystem, type TestSystem } from './control-plane.ts';

/** Control plane of one test file, with the admin command running beside it. */
export let system: TestSystem;
export let state: string;

beforeAll(async () => {
  system = await startTestSystem();
  state = await mkdtemp(join(tmpdir(), 'semblance-admin-'));
  const control = { control_address: `127.0.0.1:${system.plane.port}` };
  await writeFile(join(state, 'control.json'), JSON.stringify(control));
  await writeFile(join(state, 'stack.json'), JSON.stringify({ admin_token: system.adminToken }));
});
afterAll(async () => {
  await rm(state, { recursive: true });
  await system.close();
});

export const local = () => ({ SEMBLANCE_STATE_DIR: state });

export async function admin(args: string[], env: NodeJS.ProcessEnv = local()) {
  const written = { stdout: '', stderr: '' };
  const into = (name: 'stdout' | 'stderr') => ({
    write: (text: string) => {
      written[name] += text;
    },
  });
  const code = await runAdmin(args, { env, stdout: into('stdout'), stderr: into('stderr') });
  return { code, ...written };
}

export async function json(...args: string[]) {
  const { code, stdout } = await admin([...args, '--json']);
  return { code, answer: JSON.parse(stdout) };
}
