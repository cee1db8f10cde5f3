/**
 * @module-tag ffmpeg
 * @module-tag speech
 */
/**
 * Voices from their files to the sound for a caller, through control plane, gateway, object store and the agent's
 * own service.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { call, createClient } from '@semblance/common/grpc/client';
import { type GrpcServer, startGrpcServer } from '@semblance/common/grpc/server';
import { silentLogger } from '@semblance/common/logging';
import { loadVoices } from '@semblance/common/voices/load-voices';
import { GPUAGENT_RESOURCE } from '@semblance/crds/gen/gpuagents';
import { type Gateway, startGateway } from '@semblance/gateway/gateway';
import { createVoiceService } from '@semblance/gpu-agent/live/voice-service';
import { createAgentMetrics } from '@semblance/gpu-agent/metrics';
import { ControlServiceClient } from '@semblance/proto/semblance/control/v1/control';
import {
  makeAccount,
  startTestSystem,
  type TestSystem,
  untilTrue,
} from '@semblance/testkit/control-plane/control-plane';
import { median, pitchOf } from '@semblance/testkit/voice/analysis';
import { createPreviews } from '@semblance/voice/preview/preview';
import { Registry } from 'prom-client';
import { afterAll, beforeAll, expect, test } from 'vitest';

const TOKEN = 'the-token-of-this-test';
const OWN = {
  id: 'own-voice',
  name: 'Own',
  description: 'The voice of a test.',
  pitch_hz: { low: 118, high: 165 },
  formant_shift: 1,
};

let system: TestSystem;
let gateway: Gateway;
let agent: GrpcServer;
let directory: string;
const logger = silentLogger();

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'semblance-voices-'));
  const slots = { slots: () => 0, slotsUsed: () => 0, unacknowledged: () => 0 };
  const service = createVoiceService({
    logger,
    metrics: createAgentMetrics(new Registry(), slots),
    previews: createPreviews({ directory, generator: { name: 'Semblance', version: '1' } }),
  });
  agent = await startGrpcServer({
    listen: { host: '127.0.0.1', port: 0 },
    services: [{ ...service, token: TOKEN }],
  });
  system = await startTestSystem({ internalToken: TOKEN, previews: { everyMs: 200, retryMs: 500 } });
  gateway = await startGateway({
    listen: { host: '127.0.0.1', port: 0 },
    controlAddress: `127.0.0.1:${system.plane.port}`,
    store: system.objects,
    logger,
    registry: new Registry(),
    publicUrl: 'http://gateway.test',
    // Longer than any standstill of the machine.
    timing: { control: 30_000 },
  });
});
afterAll(async () => {
  await gateway?.close();
  await system?.close();
  await agent?.close();
  await rm(directory, { recursive: true });
});

test('every voice can be heard once an agent is ready, and one that is added soon after', async () => {
  const { caller } = await makeAccount(system);
  const { admin, asAdmin } = system.client;
  const control = createClient(ControlServiceClient, `127.0.0.1:${system.plane.port}`, TOKEN);
  const list = async () =>
    (await call(control.listVoices.bind(control), { caller }, { timeoutMs: 25_000 })).voices;
  expect(await list()).toEqual([]);

  const metadata = { name: 'node-1', namespace: system.kubernetes.namespace };
  await system.kube.apply(GPUAGENT_RESOURCE, { metadata, spec: {} });
  const ready = { reason: 'Ready', message: '', lastTransitionTime: new Date().toISOString() };
  const status = {
    address: `127.0.0.1:${agent.port}`,
    slots: 1,
    live: [{ name: 'voice', slots: 2 }],
    conditions: [{ type: 'Ready', status: 'True', ...ready }],
  };
  await system.kube.apply(GPUAGENT_RESOURCE, { metadata, status } as never, { subresource: 'status' });
  const voices = await loadVoices();
  await untilTrue(async () => (await list()).length === voices.size, 'every voice is listed', 60_000);

  await asAdmin(admin.addVoice.bind(admin), { definitionJson: JSON.stringify(OWN) });
  await untilTrue(async () => (await list()).some(({ id }) => id === 'own-voice'), 'the new one is', 60_000);
  const { previewUrl = '' } = (await list()).find(({ id }) => id === 'own-voice') ?? {};
  const { pathname, search } = new URL(previewUrl);
  const answer = await fetch(`http://127.0.0.1:${gateway.port}${pathname}${search}`);
  expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'audio/wav']);
  // The sound is after a head of 44 bytes and before the provenance marks.
  const wav = Buffer.from(await answer.arrayBuffer());
  const sound = new Int16Array(new Uint8Array(wav.subarray(44, 44 + wav.readUInt32LE(40))).buffer);
  control.close();
  const pitch = median(pitchOf(sound, 24_000).filter((hz) => hz > 0));
  expect(pitch).toBeGreaterThan(118);
  expect(pitch).toBeLessThan(165);
});
