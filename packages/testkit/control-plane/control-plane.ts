import { createHash, randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { Metadata, type ServiceError } from '@grpc/grpc-js';
import { type CallSettings, call, createClient } from '@semblance/common/grpc/client';
import { fromServiceError } from '@semblance/common/grpc/status';
import { createKubeClient } from '@semblance/common/kube/index';
import { silentLogger } from '@semblance/common/logging';
import {
  type ControlPlane,
  type ControlPlaneOptions,
  startControlPlane,
} from '@semblance/control-plane/control-plane';
import { openDatabase } from '@semblance/control-plane/storage/database';
import { RENDERJOB_RESOURCE, type RenderJob, type RenderJobStatus } from '@semblance/crds/gen/renderjobs';
import type { EventBus } from '@semblance/events/bus';
import { createNatsBus } from '@semblance/events/nats-bus';
import { openObjectStore } from '@semblance/objects/open';
import type { ObjectStore } from '@semblance/objects/store';
import { AdminServiceClient } from '@semblance/proto/semblance/admin/v1/admin';
import { ControlServiceClient, type Job, MediaKind } from '@semblance/proto/semblance/control/v1/control';
import { Registry } from 'prom-client';
import { testKube, testNats, testPostgres } from '../servers/shared.ts';
import { PATIENT } from './storage.ts';

/** Time in ms after which a test gives up; even a slow machine answers long before. */
const WAIT_MS = 25_000;

export interface TestServers {
  readonly pg: { url: string; close(): Promise<void> };
  readonly nats: { url: string; close(): Promise<void> };
  /**
   * Creates the proxy through which the control plane reaches the Kubernetes API. The test itself connects
   * directly.
   */
  readonly kubeProxy: (kubeconfigPath: string) => Promise<string>;
}

/** Starts a control plane on a real Postgres, NATS, Kubernetes API and directory store. */
export async function startTestSystem(
  overrides: Partial<ControlPlaneOptions> = {},
  servers: Partial<TestServers> = {},
) {
  const [pg, nats, kubernetes] = await Promise.all([
    servers.pg ?? testPostgres(),
    servers.nats ?? testNats(),
    testKube(),
  ]);
  const folder = await mkdtemp(join(tmpdir(), 'semblance-objects-'));
  const logger = silentLogger();
  const kube = createKubeClient({ kubeconfigPath: kubernetes.kubeconfigPath, fieldManager: 'test' });
  const objects = openObjectStore({
    url: `file://${folder}`,
    signingKey: randomBytes(32),
    publicUrl: 'http://127.0.0.1:1',
  });
  const kubeconfigPath = (await servers.kubeProxy?.(kubernetes.kubeconfigPath)) ?? kubernetes.kubeconfigPath;
  const planeKube = createKubeClient({ kubeconfigPath, fieldManager: 'semblance-control-plane' });
  const adminToken = randomBytes(16).toString('hex');
  const database = openDatabase({ url: pg.url, ...PATIENT });
  const started: { plane: ControlPlane; bus: EventBus }[] = [];

  async function startPlane(more: Partial<ControlPlaneOptions> = {}) {
    const bus = createNatsBus({ url: nats.url, name: 'control-plane', logger });
    const running = await startControlPlane({
      listen: { host: '127.0.0.1', port: 0 },
      postgresUrl: pg.url,
      // A test that brings a server of its own tests its outage, so it keeps the limits of production.
      database: servers.pg ? undefined : PATIENT,
      events: bus,
      kube: planeKube,
      namespace: kubernetes.namespace,
      objects,
      adminToken,
      logger,
      registry: new Registry(),
      ...overrides,
      ...more,
    });
    let closed: Promise<void> | undefined;
    const plane: ControlPlane = {
      ...running,
      // A test may close one system before the end closes all.
      close() {
        closed ??= running.close();
        return closed;
      },
    };
    started.push({ plane, bus });
    await plane.migrated;
    return plane;
  }

  const plane = await startPlane();
  return {
    plane,
    startPlane,
    pg,
    nats,
    kube,
    kubernetes,
    objects,
    folder,
    database,
    adminToken,
    logger,
    client: connectTo(plane.port, adminToken),
    async close() {
      for (const { plane, bus } of started) {
        await plane.close();
        await bus.close();
      }
      await database.close();
      await kube.close();
      await planeKube.close();
      await objects.close();
      await Promise.all([pg.close(), nats.close(), kubernetes.close()]);
      await rm(folder, { recursive: true, force: true });
    },
  };
}

export type TestSystem = Awaited<ReturnType<typeof startTestSystem>>;

/** Creates typed clients of one control plane. Refusals are thrown as ApiError. */
export function connectTo(port: number, adminToken: string) {
  const control = createClient(ControlServiceClient, `127.0.0.1:${port}`);
  const admin = createClient(AdminServiceClient, `127.0.0.1:${port}`);
  const adminMetadata = new Metadata();
  adminMetadata.set('authorization', `Bearer ${adminToken}`);
  const settings = { timeoutMs: WAIT_MS };
  return {
    control,
    admin,
    ask: async <Q, A>(method: Parameters<typeof call<Q, A>>[0], request: Q, more?: Partial<CallSettings>) =>
      call(method, request, { ...settings, ...more }).catch((error: ServiceError) => {
        throw fromServiceError(error);
      }),
    asAdmin: async <Q, A>(method: Parameters<typeof call<Q, A>>[0], request: Q) =>
      call(method, request, { ...settings, metadata: adminMetadata }).catch((error: ServiceError) => {
        throw fromServiceError(error);
      }),
  };
}

export type TestClient = ReturnType<typeof connectTo>;

export function callerOf(apiKey: string) {
  return { keySha256: createHash('sha256').update(apiKey).digest() };
}

/** Creates an account whose rate limit no test reaches. */
export async function makeAccount({ client }: { client: TestClient }, usd = 10, perMinute = 1_000_000) {
  const { admin, asAdmin } = client;
  const made = await asAdmin(admin.createAccount.bind(admin), {
    name: 'test',
    balanceMicros: BigInt(Math.round(usd * 1e6)),
  });
  await asAdmin(admin.limitKey.bind(admin), { keyId: made.keyId, perMinute });
  return { ...made, caller: callerOf(made.apiKey) };
}

/** Uploads a few bytes with a declared type. */
export async function upload(
  { client, objects }: { client: TestClient; objects: ObjectStore },
  caller: { keySha256: Buffer },
  kind: MediaKind = MediaKind.MEDIA_KIND_IMAGE,
) {
  const { control, ask } = client;
  const { fileKey, accountId } = await ask(control.beginUpload.bind(control), { caller });
  const bytes = Buffer.from('bytes');
  await objects.put(fileKey, Readable.from([bytes]), { contentType: 'image/png' });
  const { url } = await ask(control.completeUpload.bind(control), {
    fileKey,
    accountId,
    kind,
    contentType: 'image/png',
    sizeBytes: BigInt(bytes.length),
    animated: false,
    sha256: createHash('sha256').update(bytes).digest(),
  });
  return { fileKey, url };
}

/** Returns the submit request of a Photo Swap. */
export function photoSwap(
  caller: { keySha256: Buffer },
  image: string,
  face = image,
  idempotencyKey?: string,
) {
  return {
    caller,
    capability: 'face-swap-image',
    inputs: { image, face },
    parameters: {},
    engineOptions: {} as Record<string, string>,
    callbackUrl: undefined,
    idempotencyKey,
  };
}

/** Reads a job until it satisfies the condition. */
export async function untilJob(
  { client: { control, ask } }: { client: TestClient },
  caller: { keySha256: Buffer },
  jobId: string,
  condition: (job: Job) => boolean,
  timeoutMs = WAIT_MS,
): Promise<Job> {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    const { job } = await ask(control.getJob.bind(control), { caller, jobId });
    if (job && condition(job)) return job;
    if (Date.now() > deadline) throw new Error(`job is still ${JSON.stringify(job, (_, v) => String(v))}`);
    await delay(20);
  }
}

/** Waits for the RenderJob of a job and returns it. */
export async function untilRenderJob({ kube, kubernetes }: TestSystem, name: string): Promise<RenderJob> {
  const deadline = Date.now() + WAIT_MS;
  for (;;) {
    const found = await kube.find(RENDERJOB_RESOURCE, { name, namespace: kubernetes.namespace });
    if (found) return found;
    if (Date.now() > deadline) throw new Error(`no RenderJob ${name}`);
    await delay(20);
  }
}

/** Writes the status of a RenderJob, as the operator would. */
export async function setStatus({ kube }: TestSystem, renderJob: RenderJob, status: RenderJobStatus) {
  return kube.mergePatch(
    RENDERJOB_RESOURCE,
    { name: renderJob.metadata.name ?? '', namespace: renderJob.metadata.namespace },
    { status },
    { subresource: 'status' },
  );
}

/** Ends a RenderJob successfully, with its output in the object store. */
export async function succeed(
  system: TestSystem,
  renderJob: RenderJob,
  { milliUnits = 1000, attempt = 1 }: { milliUnits?: number; attempt?: number } = {},
) {
  const key = `out/${renderJob.metadata.name}/${attempt}.png`;
  await system.objects.put(key, Readable.from([Buffer.from('picture')]), { contentType: 'image/png' });
  return setStatus(system, renderJob, {
    phase: 'Succeeded',
    attempt,
    output: { key, contentType: 'image/png', sizeBytes: 7, unit: 'image', milliUnits },
  });
}

export async function untilTrue(check: () => Promise<boolean> | boolean, what: string, timeoutMs = WAIT_MS) {
  const deadline = Date.now() + timeoutMs;
  while (!(await check())) {
    if (Date.now() > deadline) throw new Error(`not in time: ${what}`);
    await delay(20);
  }
}
