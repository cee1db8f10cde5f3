import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually } from '@semblance/testkit/stack/eventually';
import { processesMentioning } from '@semblance/testkit/stack/processes';
import { cleanEnv, root } from '@semblance/testkit/stack/stack-process';
import { afterEach, beforeEach, expect, test } from 'vitest';

/** Tests signals to `npm start`: npm and the shell that runs its scripts are between the signal and the stack. */
let stateDir: string;
let npm: ChildProcess;
let said: string;

beforeEach(async () => {
  stateDir = await mkdtemp(join(tmpdir(), 'semblance-npm-'));
  said = '';
});
afterEach(async () => {
  if (npm.exitCode === null && npm.signalCode === null) process.kill(-(npm.pid as number), 'SIGKILL');
  for (const { pid } of processesMentioning(stateDir)) process.kill(pid, 'SIGKILL');
  await rm(stateDir, { recursive: true, force: true });
});

async function start(env: NodeJS.ProcessEnv = {}): Promise<void> {
  npm = spawn('npm', ['start'], {
    cwd: root,
    env: { ...cleanEnv(), ...env, SEMBLANCE_STATE_DIR: stateDir },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  for (const output of [npm.stdout, npm.stderr]) output?.on('data', (text) => (said += text));
  await eventually('a stack', () => existsSync(join(stateDir, 'stack.json')) || undefined, {
    withinMs: 220_000,
  });
}

/** Returns the accounts of the agent and of all processes below it. */
function accountsOfAgent(): string[] {
  const { services } = JSON.parse(readFileSync(join(stateDir, 'stack.json'), 'utf8')) as {
    services: Record<string, number>;
  };
  const accounts: string[] = [];
  const visit = (pid: number) => {
    accounts.push(/^Uid:\s+(.*)$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? '');
    for (const task of readdirSync(`/proc/${pid}/task`))
      for (const child of readFileSync(`/proc/${pid}/task/${task}/children`, 'utf8')
        .split(' ')
        .filter(Boolean))
        visit(Number(child));
  };
  visit(services['gpu-agent'] as number);
  return accounts;
}

async function untilNothingIsLeft(): Promise<void> {
  if (npm.exitCode === null && npm.signalCode === null) await once(npm, 'exit');
  expect(said).toContain('Stopped; nothing is left running.');
  await expect.poll(() => processesMentioning(stateDir)).toEqual([]);
}

test.each(['SIGINT', 'SIGTERM'] as const)(
  '%s to npm alone ends the whole stack in order',
  async (signal) => {
    await start();
    // It decodes files of strangers, whoever started the stack.
    const accounts = process.platform === 'linux' ? accountsOfAgent() : [];
    for (const account of accounts) expect(account).not.toMatch(/\b0\b/);
    npm.kill(signal);
    await untilNothingIsLeft();
  },
  400_000,
);

test('Ctrl-C at a terminal, which reaches the stack twice where the shell makes way for it, does too', async () => {
  await start({ npm_config_script_shell: '/bin/bash' });
  process.kill(-(npm.pid as number), 'SIGINT');
  await untilNothingIsLeft();
}, 400_000);
