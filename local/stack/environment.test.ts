import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { NODE_FLAGS } from '@semblance/common/node-flags';
import { GATEWAY_FLAGS } from '@semblance/gateway/node-flags';
import { AGENT_FLAGS } from '@semblance/gpu-agent/node-flags';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { environmentFor } from './environment.ts';
import { ownServices } from './services.ts';
import { stackSettings } from './settings.ts';

let stateDir: string;
let kubeconfig: string;
/** What the agent gets: a copy where root starts the stack (agent-user.ts). */
const agents = () => (process.getuid?.() === 0 ? join(stateDir, 'agent-files', 'kubeconfig') : kubeconfig);
beforeEach(() => {
  stateDir = mkdtempSync(join(tmpdir(), 'semblance-local-'));
  kubeconfig = join(stateDir, 'kubeconfig');
  writeFileSync(kubeconfig, JSON.stringify({ apiVersion: 'v1', kind: 'Config', clusters: [], users: [] }));
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(stateDir, { recursive: true, force: true });
});

/** Returns how each service's process would be started if these variables were set for the stack. */
async function launches(set: Record<string, string>) {
  for (const [name, value] of Object.entries(set)) vi.stubEnv(name, value);
  const settings = await stackSettings({ ...set, SEMBLANCE_STATE_DIR: stateDir });
  const services = ownServices(settings, {
    postgresUrl: () => 'postgres://semblance:pg-password@127.0.0.1:1/semblance',
    natsUrl: async () => 'nats://semblance:nats-password@127.0.0.1:2',
    kubeconfig,
  });
  const launched = services.map(
    async ({ name, launch }) => [name, await launch(new AbortController().signal)] as const,
  );
  return new Map(await Promise.all(launched));
}

async function environments(set: Record<string, string>) {
  return new Map([...(await launches(set))].map(([name, { env = {} }]) => [name, env]));
}

const SECRETS = {
  SEMBLANCE_ADMIN_TOKEN: 'admin-token-of-the-user',
  SEMBLANCE_OBJECTS_SIGNING_KEY: 'ab'.repeat(32),
  SEMBLANCE_POSTGRES_URL: 'postgres://root:external-password@db/semblance',
  SEMBLANCE_NATS_URL: 'nats://root:external-password@nats:4222',
  AWS_SECRET_ACCESS_KEY: 'bucket-secret',
  SOME_OTHER_TOKEN: 'of no concern',
};

it('gives each service the secrets it needs and none besides', async () => {
  const given = await environments(SECRETS);
  const holders = (text: string) =>
    [...given].filter(([, env]) => JSON.stringify(env).includes(text)).map(([name]) => name);
  expect(holders('admin-token-of-the-user')).toEqual(['control-plane']);
  expect(holders('pg-password')).toEqual(['control-plane']);
  expect(holders('nats-password')).toEqual(['control-plane']);
  expect(holders('ab'.repeat(32))).toEqual(['control-plane', 'operator', 'gateway']);
  expect(holders('bucket-secret')).toEqual(['control-plane', 'operator', 'gateway']);
  const kube = { KUBECONFIG: kubeconfig };
  expect(given.get('control-plane')).toMatchObject(kube);
  expect(given.get('operator')).toMatchObject(kube);
  expect(given.get('gpu-agent')).toMatchObject({ KUBECONFIG: agents() });
  expect(given.get('gateway')).not.toHaveProperty('KUBECONFIG');
  for (const unread of ['external-password', 'of no concern']) expect(holders(unread)).toEqual([]);
});

it('passes the settings of a service on to it alone, and what any program needs to all', async () => {
  const given = await environments({
    SEMBLANCE_AGENT_NODE: 'rack-7',
    SEMBLANCE_OPERATOR_CONCURRENCY: '3',
    SEMBLANCE_LOG_LEVEL: 'debug',
    XDG_CACHE_HOME: '/some/cache',
    NODE_EXTRA_CA_CERTS: '/some/ca.pem',
    KUBECONFIG: '/of/the/user',
  });
  for (const [name, env] of given) {
    expect(env.SEMBLANCE_AGENT_NODE, name).toBe(name === 'gpu-agent' ? 'rack-7' : undefined);
    expect(env.SEMBLANCE_OPERATOR_CONCURRENCY, name).toBe(name === 'operator' ? '3' : undefined);
    if (name === 'gateway') expect(env.KUBECONFIG, name).toBeUndefined();
    else expect(env.KUBECONFIG, name).toBe(name === 'gpu-agent' ? agents() : kubeconfig);
    expect(env).toMatchObject({
      PATH: process.env.PATH,
      SEMBLANCE_LOG_LEVEL: 'debug',
      XDG_CACHE_HOME: '/some/cache',
      NODE_EXTRA_CA_CERTS: '/some/ca.pem',
    });
  }
});

it('runs each service with its flags of Node', async () => {
  const flags = new Map<string, readonly string[]>([
    ['control-plane', NODE_FLAGS],
    ['operator', NODE_FLAGS],
    ['gateway', GATEWAY_FLAGS],
    ['gpu-agent', AGENT_FLAGS],
  ]);
  const given = await launches({});
  expect([...given.keys()].sort()).toEqual([...flags.keys()].sort());
  for (const [name, { command, args }] of given) {
    expect(command, name).toBe(process.execPath);
    expect(args, name).toEqual([...(flags.get(name) ?? []), expect.stringMatching(`/${name}/main.ts$`)]);
  }
});

it('leaves out what is not set', () => {
  expect(
    environmentFor(['SEMBLANCE_X', 'SEMBLANCE_Y'], { SEMBLANCE_X: '1', SEMBLANCE_Y: undefined }),
  ).toEqual({
    SEMBLANCE_X: '1',
  });
});
