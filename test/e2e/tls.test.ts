import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type ServiceError, status } from '@grpc/grpc-js';
import { call, createClient } from '@semblance/common/grpc/client';
import { COMPONENTS, type Component } from '@semblance/common/grpc/tls/components';
import { openTls, type SecureChannel } from '@semblance/common/grpc/tls/tls';
import { silentLogger } from '@semblance/common/logging';
import { AdminServiceClient } from '@semblance/proto/semblance/admin/v1/admin';
import { VoiceServiceClient } from '@semblance/proto/semblance/live/v1/live';
import { AllocateRequest, AllocationServiceClient } from '@semblance/proto/semblance/operator/v1/operator';
import { type Api, apiOf } from '@semblance/testkit/stack/api';
import { eventually } from '@semblance/testkit/stack/eventually';
import { connectVoice } from '@semblance/testkit/stack/live-client';
import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/stack/media';
import { type Stack, stackAt } from '@semblance/testkit/stack/stack';
import {
  readControlAddress,
  type StackProcess,
  startStackProcess,
} from '@semblance/testkit/stack/stack-process';
import { afterAll, beforeAll, expect, test } from 'vitest';

/** The tests run every service in its own process with its own certificate. */
const SOON = { timeoutMs: 20_000 };

let running: StackProcess;
let stack: Stack;
/**
 * API with the key of an account that the admin command created; its rate limit is raised, because the tests poll.
 */
let api: Api;

beforeAll(async () => {
  running = await startStackProcess({ env: { SEMBLANCE_TLS: 'on', SEMBLANCE_LIVE_VIDEO_SLOTS: '0' } });
  stack = stackAt(running.file);
  const made = await stack.admin('account', 'create', { name: 'made', 'balance-usd': '100' });
  await stack.admin('key', 'limit', { key: String(made.key_id), 'per-minute': 1_000_000 });
  api = apiOf({ baseUrl: stack.api.baseUrl, apiKey: String(made.api_key) });
});
afterAll(() => running?.close());

const metricsOf = async (component: Component) => {
  const ports = JSON.parse(readFileSync(join(running.stateDir, 'ports.json'), 'utf8'));
  const port = ports[`${component === 'agent' ? 'gpu-agent' : component}-health`];
  return (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
};
const addressOf = async (component: Component) => {
  if (component === 'control-plane') return readControlAddress(running.file);
  const ports = JSON.parse(readFileSync(join(running.stateDir, 'ports.json'), 'utf8'));
  return `127.0.0.1:${ports[component === 'agent' ? 'gpu-agent' : component]}`;
};

test('a photo is swapped for an account made by the admin command', async () => {
  const [image_key, face_key] = await Promise.all([api.upload(ASTRONAUT), api.upload(ADMIRAL)]);
  const { id } = await api.swap({ image_key, face_key });
  expect(await api.finished(id)).toMatchObject({ status: 'succeeded' });
});

test('a voice is heard live, and its samples are listed', { tags: ['speech'] }, async () => {
  await eventually('a voice with a sample', async () => {
    const { body } = await api.get('/voices');
    return (body as unknown[]).length > 0 || undefined;
  });
  // The agent that made the sample also carries voice sessions.
  const client = await connectVoice(api);
  const stop = new AbortController();
  const streaming = client.stream(stop.signal);
  await eventually('sound to come back', async () => client.received.length > 5 || undefined);
  stop.abort();
  await streaming;
  client.close();
  await client.closed;
});

test('no port of the services speaks plainly, or with a component that has no business there', async () => {
  const tlsOf = (component: Component) =>
    openTls({ dir: join(running.stateDir, 'tls', component), component, logger: silentLogger() });
  const [gateway, agent] = await Promise.all([tlsOf('gateway'), tlsOf('agent')]);
  const asks = {
    'control-plane'(address: string, secure?: SecureChannel) {
      const client = createClient(AdminServiceClient, address, undefined, secure);
      return { client, done: call(client.showAccount.bind(client), { accountId: '' }, SOON) };
    },
    operator(address: string, secure?: SecureChannel) {
      const client = createClient(AllocationServiceClient, address, undefined, secure);
      return { client, done: call(client.allocate.bind(client), AllocateRequest.create(), SOON) };
    },
    agent(address: string, secure?: SecureChannel) {
      const client = createClient(VoiceServiceClient, address, undefined, secure);
      return { client, done: call(client.previewVoice.bind(client), { voice: '' }, SOON) };
    },
  };
  const codeOf = async (component: keyof typeof asks, secure?: SecureChannel) => {
    const { client, done } = asks[component](await addressOf(component), secure);
    const code = await done.then(
      () => status.OK,
      (error: ServiceError) => error.code,
    );
    client.close();
    return code;
  };
  const read = [
    'get',
    'gpuagents',
    '-o',
    'jsonpath={.items[0].metadata.annotations.semblance\\.dev/certificate}',
  ];
  const own = await stack.kubectl(read);
  for (const component of ['control-plane', 'operator', 'agent'] as const) {
    const certificate = component === 'agent' ? own : undefined;
    expect(await codeOf(component), component).toBe(status.UNAVAILABLE);
    expect(await codeOf(component, agent.to(component, certificate)), component).toBe(
      status.PERMISSION_DENIED,
    );
  }
  // The agent has the certificate that it states, and none of the authority.
  expect(await codeOf('agent', gateway.to('agent', own))).toBe(status.UNAUTHENTICATED);
  expect(await codeOf('agent', gateway.to('agent'))).toBe(status.UNAVAILABLE);
  // With the right certificate, the call is refused only for its missing token.
  expect(await codeOf('control-plane', gateway.to('control-plane'))).toBe(status.UNAUTHENTICATED);
  gateway.close();
  agent.close();
});

test('each service tells when its certificate ends', async () => {
  for (const component of COMPONENTS) {
    const [, seconds] = /semblance_tls_certificate_not_after_seconds\{file="tls\.crt".*\} (\S+)/.exec(
      await metricsOf(component),
    ) ?? [undefined, '0'];
    expect(Number(seconds) * 1_000, component).toBeGreaterThan(Date.now());
  }
});
