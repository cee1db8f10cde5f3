import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { apiOf } from '@semblance/testkit/stack/api';
import { eventually } from '@semblance/testkit/stack/eventually';
import { expectError } from '@semblance/testkit/stack/expect-error';
import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/stack/media';
import { processesMentioning, processTree, stillAlive } from '@semblance/testkit/stack/processes';
import { type Account, type Stack, sharedStack, stackAt } from '@semblance/testkit/stack/stack';
import {
  readStackFile,
  SERVICE_NAMES,
  type StackProcess,
  startStackProcess,
  WITHOUT_LIVE,
} from '@semblance/testkit/stack/stack-process';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

let stateDir: string;
let running: StackProcess;
let stack: Stack;
/** Account of that stack whose key has no rate limit. */
let account: Account;

beforeAll(async () => {
  stateDir = await mkdtemp(join(tmpdir(), 'semblance-lifecycle-'));
  running = await startStackProcess({ stateDir, env: WITHOUT_LIVE });
  stack = stackAt(running.file);
  account = await stack.newAccount();
}, 240_000);

afterAll(async () => {
  await running?.close();
  await rm(stateDir, { recursive: true, force: true });
}, 200_000);

async function swap({ api }: Account): Promise<string> {
  const [image_key, face_key] = await Promise.all([api.upload(ASTRONAUT), api.upload(ADMIRAL)]);
  return (await api.swap({ image_key, face_key })).id;
}

/** Restarts the stack with the same state. */
async function startAgain(): Promise<void> {
  await running.close();
  running = await startStackProcess({ stateDir, env: WITHOUT_LIVE });
  stack = stackAt(running.file);
  account = { ...account, api: apiOf({ baseUrl: stack.read().base_url, apiKey: account.apiKey }) };
}

describe('stack.json', () => {
  test('has the fields that scripts rely on', () => {
    const file = readStackFile(running.file);
    expect(Object.keys(file)).toEqual(
      expect.arrayContaining([
        'account_id',
        'admin_token',
        'api_key',
        'base_url',
        'kubeconfig',
        'namespace',
        'nats_url',
        'postgres_url',
        'services',
      ]),
    );
    expect(file.base_url).toMatch(/^http:\/\/[^/]+\/api\/v1$/);
    expect(Object.keys(file.services).sort()).toEqual([...SERVICE_NAMES].sort());
    for (const pid of Object.values(file.services)) expect(() => process.kill(pid, 0)).not.toThrow();
  });

  test('every service is a process of its own', () => {
    const pids = Object.values(readStackFile(running.file).services);
    expect(new Set([...pids, running.pid]).size).toBe(SERVICE_NAMES.length + 1);
  });
});

describe('two stacks side by side', () => {
  test('share nothing: ports, keys, jobs, resources', async () => {
    const other = await sharedStack();
    const theirAccount = await other.newAccount();
    const [mine, theirs] = [stack.read(), other.read()];
    for (const name of [
      'base_url',
      'api_key',
      'account_id',
      'postgres_url',
      'nats_url',
      'kubeconfig',
    ] as const) {
      expect(mine[name], name).not.toBe(theirs[name]);
    }
    const foreign = apiOf({ baseUrl: theirs.base_url, apiKey: mine.api_key });
    expectError(await foreign.get('/balance'), 'unauthorized');
    const [one, two] = await Promise.all([swap(account), swap(theirAccount)]);
    const [first, second] = await Promise.all([account.api.finished(one), theirAccount.api.finished(two)]);
    expect([first.status, second.status]).toEqual(['succeeded', 'succeeded']);
    expectError(await theirAccount.api.get(`/jobs/${one}`), 'not_found');
    expect(await other.kubectl.renderJob(one)).toBeUndefined();
  }, 240_000);
});

describe('a service that is killed', () => {
  const everything: string[] = [...SERVICE_NAMES];
  test.each<[string, string[]]>([
    ['the gateway', ['gateway']],
    ['the agent', ['gpu-agent']],
    ['control plane and operator', ['control-plane', 'operator']],
    ['everything at once', everything],
  ])(
    '%s: started again, stack.json kept true, and work goes on',
    async (_name, names) => {
      const before = stack.read();
      for (const name of names) process.kill(before.services[name] as number, 'SIGKILL');
      const after = await eventually('them to be started again', () => {
        const now = stack.read();
        for (const name of names) {
          const pid = now.services[name];
          if (!pid || pid === before.services[name]) return undefined;
          process.kill(pid, 0);
        }
        return now;
      });
      // The addresses of the stack must not change, because people have written them down.
      expect({ ...after, services: 0 }).toEqual({ ...before, services: 0 });
      const id = await eventually('a submit to be taken', () => swap(account), { withinMs: 100_000 });
      expect((await account.api.finished(id)).status).toBe('succeeded');
      for (const name of names) {
        expect(running.output()).toMatch(new RegExp(`${name}.*(killed|SIGKILL|ended|exited|restart)`, 'i'));
      }
    },
    400_000,
  );
});

describe('ending and starting again', () => {
  test('SIGINT ends everything: status 0, and no process is left; what ran is finished after the next start', async () => {
    const id = await swap(account);
    await account.api.finished(id);
    const before = { ...stack.read(), services: {} };
    const balance = await account.api.balance();
    const interrupted = await swap(account);
    const processes = processTree(running.pid);
    expect(processes.length).toBeGreaterThan(SERVICE_NAMES.length);

    expect(await running.interrupt()).toBe(0);
    // Guard processes end a moment after their owner.
    await eventually('all processes to end', () => (stillAlive(processes).length ? undefined : true), {
      withinMs: 60_000,
    });
    await eventually(
      'nothing to run in the state folder',
      () => {
        const left = processesMentioning(stateDir);
        if (left.length) throw new Error(JSON.stringify(left));
        return true;
      },
      { withinMs: 60_000 },
    );

    // The state must survive: the same key, account, job and books.
    await startAgain();
    const now = stack.read();
    expect((await stack.api.get('/balance')).status).toBe(200);
    expect([now.api_key, now.account_id, now.namespace]).toEqual([
      before.api_key,
      before.account_id,
      before.namespace,
    ]);
    const job = await account.api.job(id);
    expect(job.status).toBe('succeeded');
    expect((await fetch(job.output_url ?? '')).status).toBe(200);
    expect((await account.api.finished(interrupted, 90_000)).status).toBe('succeeded');
    // The money spent this week, this month and this year is left out, because a new period may begin meanwhile.
    const { balance_usd, total_spent_usd, total_topped_up_usd } = balance;
    expect(await account.api.balance()).toMatchObject({
      balance_usd: expect.closeTo(balance_usd - 0.04, 6),
      total_spent_usd: expect.closeTo(total_spent_usd + 0.04, 6),
      total_topped_up_usd,
    });
    const shown = await stack.admin('account', 'show', { account: account.accountId });
    expect(shown).toMatchObject({ ledger_ok: true, holds: 0 });
    expect((await stack.kubectl.renderJob(id))?.status?.phase).toBe('Succeeded');
    const next = await swap(account);
    expect((await account.api.finished(next)).status).toBe('succeeded');
  }, 500_000);
});
