import { type GrpcServer, startGrpcServer } from '@semblance/common/grpc/server';
import { expiryCheck, observeExpiry } from '@semblance/common/grpc/tls/expiry';
import type { Tls } from '@semblance/common/grpc/tls/tls';
import { createRegistry, type HealthServer, startHealthServer } from '@semblance/common/health';
import { newId } from '@semblance/common/ids';
import { createKubeClient } from '@semblance/common/kube/index';
import type { Logger } from '@semblance/common/logging';
import { createDispatcher, DEFAULT_TRANSFER_LIMITS, type TransferLimits } from './assets/transfer.ts';
import { openWorkDir } from './assets/work-dir.ts';
import { createAgentService } from './attempts/agent-service.ts';
import { createAttempts } from './attempts/attempts.ts';
import { isMeasurable } from './attempts/measured-units.ts';
import { createContentChecks } from './content-check/content-checks.ts';
import { endWork } from './ending.ts';
import { createEnginePools } from './engines/engine-pools.ts';
import { createEngineSet } from './engines/engine-set.ts';
// The main thread must turn the telemetry off, because a worker thread of live sessions cannot.
import '@semblance/vision/models/no-telemetry';
import { raceAbort } from '@semblance/common/async/abort';
import { VERSION } from '@semblance/common/version';
import type { LiveEngine } from '@semblance/engine-api/live-engine';
import { createMedia, findMediaTools } from '@semblance/media/media';
import { createProvenance, type Provenance } from '@semblance/provenance/provenance';
import { createPreviews } from '@semblance/voice/preview/preview';
import { type EngineSource, engineSource, sidecarSource } from './engines/registry.ts';
import { createLive } from './live/live.ts';
import { createVoiceService } from './live/voice-service.ts';
import { type AgentMetrics, createAgentMetrics } from './metrics.ts';
import { engineStatement } from './registration/engine-statement.ts';
import {
  type AgentStatement,
  createRegistration,
  FIELD_MANAGER,
  type LeaseTimes,
} from './registration/registration.ts';
import type { AgentSettings } from './settings.ts';

/** Time for the operator to record the last results before the process ends, in ms. */
const ACKNOWLEDGE_MS = 3_000;

export interface AgentOptions {
  readonly settings: AgentSettings;
  readonly logger: Logger;
  /** Undefined: gRPC is not encrypted. */
  readonly tls?: Tls | undefined;
  /** Aborts the start. A started agent ends by `close`. */
  readonly signal: AbortSignal;
  /** Default: those named in the settings. */
  readonly engines?: readonly EngineSource[];
  /** Finds ffmpeg, which measures videos. Default: on PATH. */
  readonly findMedia?: typeof findMediaTools;
  /** Default: by the certificate named in the settings. */
  readonly provenance?: Provenance;
  /** Default: from the length in the settings. */
  readonly leaseTimes?: LeaseTimes;
  readonly transferLimits?: TransferLimits;
  /** Time for a cancelled render to end before its process is killed, in ms. Default: that of the engine contract. */
  readonly cancelGraceMs?: number | undefined;
  /** Default: those to which the settings give slots. */
  readonly liveEngines?: readonly LiveEngine[];
}

export interface Agent {
  readonly incarnation: string;
  /** host:port of the gRPC service, as announced. */
  readonly address: string;
  readonly healthPort: number;
  /** Rejects when the agent must end because another process took its name. */
  readonly failed: Promise<never>;
  /**
   * Accepts no new work, gives running work `drainMs` to end, waits for results to be recorded, and ends: releases
   * the Lease, ends engine processes, removes files.
   */
  close(): Promise<void>;
}

/** Starts an agent. Resolves when its engines are warm and it is registered. */
export async function startAgent(options: AgentOptions): Promise<Agent> {
  const { logger, signal } = options;
  const incarnation = newId('');
  /** Functions that end the started parts, in the order of their starts. */
  const started: (() => Promise<void>)[] = [];
  const undo = async () => {
    for (const end of started.toReversed()) {
      await end().catch((error: unknown) =>
        logger.error({ err: error }, 'a part of the agent did not end cleanly'),
      );
    }
  };
  try {
    return await startParts(options, incarnation, started, undo);
  } catch (error) {
    await undo();
    throw signal.aborted ? signal.reason : error;
  }
}

async function startParts(
  options: AgentOptions,
  incarnation: string,
  started: (() => Promise<void>)[],
  undo: () => Promise<void>,
): Promise<Agent> {
  const { settings, logger, signal } = options;
  let ending = false;

  const workDir = await openWorkDir({ root: settings.workDir, incarnation, logger });
  started.push(() => workDir.remove());

  const registry = createRegistry('gpu-agent');
  observeExpiry(registry, options.tls);
  const metrics: AgentMetrics = createAgentMetrics(registry, {
    slots: () => engines.capacity,
    slotsUsed: () => attempts.slotsUsed,
    deviceGone: () => engines.deviceTrouble !== undefined,
    unacknowledged: () => attempts.list().filter(({ outcome }) => outcome).length,
  });
  const limits = options.transferLimits ?? DEFAULT_TRANSFER_LIMITS;
  const dispatcher = createDispatcher(limits);
  started.push(() => dispatcher.destroy());

  // The registration is created before the parts that report changes to it. An engine may become warm, or its
  // device may be missing, before the other parts exist.
  const kubeOptions = { kubeconfigPath: settings.kubeconfig, fieldManager: FIELD_MANAGER };
  const kube = createKubeClient({ ...kubeOptions, requestTimeoutMs: 5_000, logger });
  started.push(() => kube.close());
  const leaseKube = createKubeClient({ ...kubeOptions, requestTimeoutMs: 2_000 });
  started.push(() => leaseKube.close());
  const registration = createRegistration({
    kube,
    leaseKube,
    namespace: settings.namespace,
    name: settings.name,
    incarnation,
    ...(settings.pod ? { pod: settings.pod } : {}),
    leaseTimes: options.leaseTimes ?? settings.leaseTimes,
    logger,
    registry,
    statement,
    onFenced(reason) {
      void attempts.endAll(`the agent lost its lease: ${reason}`);
      void live.sessions.endAll({ reason: 'render_failed', message: 'the agent lost its lease' });
    },
    onRestored: () => logger.info('holding the Lease again'),
    onDrain(wanted) {
      if (!ending) drain(wanted);
    },
  });

  const tools = await (options.findMedia ?? findMediaTools)();
  const media = tools.available ? createMedia({ tools, threads: 1, nice: settings.renderNice }) : undefined;
  if (media) started.push(() => media.close());
  if (!tools.available) logger.warn(`offering no capability that makes videos: ${tools.reason}`);

  const sources = options.engines ?? [
    ...settings.sidecars.map(sidecarSource),
    ...settings.engines.map((name) => ({
      ...engineSource(name, settings.engineSettings),
      ...(name === 'onnx' ? { devices: settings.deviceFiles } : {}),
    })),
  ];
  const pools = createEnginePools({
    sources,
    slots: settings.slots,
    tempDir: workDir.engines,
    nice: settings.renderNice,
    cancelGraceMs: options.cancelGraceMs,
    logger,
    onChange: () => registration.changed(),
    onCrash: (engine) => metrics.engineRestarts.inc({ engine }),
  });
  const engines = createEngineSet({
    pools,
    slots: settings.slots,
    // Work that cannot be measured cannot be charged.
    obstacle: (capability) =>
      tools.available || isMeasurable(capability, undefined) ? undefined : tools.reason,
  });
  started.push(() => engines.close());

  const contentChecks = await createContentChecks({
    settings: settings.contentCheck,
    nice: settings.renderNice,
    logger,
    onResult: (check, phase, result) => metrics.contentChecks.inc({ check, phase, result }),
  });
  started.push(() => contentChecks.close());
  const provenance =
    options.provenance ??
    (await createProvenance({
      signer: settings.signer,
      generator: { name: 'Semblance', version: VERSION },
      logger,
      onChange: () => registration.changed(),
    }));

  const attempts = createAttempts({
    engines,
    workDir,
    contentChecks,
    provenance,
    meter: media?.measure,
    dispatcher,
    metrics,
    logger,
    live: () => registration.live,
    transferLimits: limits,
  });

  const live = await createLive({
    settings: settings.live,
    onnx: settings.engines.includes('onnx') ? settings.engineSettings.onnx : undefined,
    incarnation,
    registry,
    metrics,
    workDir,
    dispatcher,
    transferLimits: limits,
    contentChecks,
    logger,
    holdsLease: () => registration.live,
    onChange: () => registration.changed(),
    ...(options.liveEngines ? { engines: options.liveEngines } : {}),
  });
  started.push(() => live.close());

  if (!settings.internalToken && !options.tls) {
    logger.warn('SEMBLANCE_INTERNAL_TOKEN is not set: whoever reaches the gRPC port may call it');
  }
  function drain(wanted: boolean): void {
    attempts.drain(wanted);
    live.sessions.drain(wanted);
  }
  const service = createAgentService({ attempts, incarnation, logger, metrics });
  const previews = createPreviews({
    directory: workDir.engines,
    generator: { name: 'Semblance', version: VERSION },
  });
  const voiceService = createVoiceService({ previews, logger, metrics });
  const grpc: GrpcServer = await startGrpcServer({
    listen: settings.listen,
    services: [service, live.service, voiceService].map((each) => ({
      ...each,
      token: settings.internalToken,
    })),
    tls: options.tls,
  });
  started.push(async () => {
    service.endWatches();
    live.service.endWatches();
    await grpc.close();
  });
  const address = settings.advertise ?? `${bracketed(settings.listen.host)}:${grpc.port}`;

  const health: HealthServer = await startHealthServer({
    listen: settings.healthListen,
    service: 'gpu-agent',
    registry,
    ready: {
      engines: () => failIf(engines.capacity === 0, engines.trouble ?? 'no engine process is warm'),
      devices: () => failIf(engines.deviceTrouble !== undefined, engines.deviceTrouble ?? ''),
      lease: () => failIf(!registration.live, 'the Lease is not held'),
      registered: () => failIf(!registration.registered, 'the GpuAgent is not written yet'),
      ending: () => failIf(ending, 'the agent is ending'),
      ...expiryCheck(options.tls),
    },
  });
  started.push(() => health.close());

  function statement(): AgentStatement {
    return {
      incarnation,
      address,
      node: settings.node,
      version: VERSION,
      slots: ending ? 0 : engines.capacity,
      memoryMib: settings.memoryMib,
      draining: ending,
      ...engineStatement(engines, live.unavailable),
      live: ending ? live.statement.map((each) => ({ ...each, slots: 0, warming: false })) : live.statement,
      contentCheck: contentChecks.statement,
      provenance: provenance.statement,
    };
  }

  // Live sessions start after the renders, so that they do not delay the readiness for renders.
  const tried = pools.filter((_, i) => !sources[i]?.remote).map((pool) => pool.tried);
  void Promise.all(tried).then(() => {
    if (!ending && !signal.aborted) live.start();
  });
  // The agent registers while its engines warm up, so that others see it early.
  await registration.start(signal);
  const leaving = new AbortController();
  const running = registration.run(leaving.signal);
  const failed = running.then(() => new Promise<never>(() => {}));
  failed.catch(() => {});
  started.push(async () => {
    leaving.abort(new Error('the agent is ending'));
    // A lost Lease is reported to the listener of `failed`, so the error is ignored here.
    await running.catch(() => {});
  });
  const firstReady = Promise.any(pools.map((pool) => pool.firstReady()));
  await raceAbort(signal, Promise.race([firstReady, failed]));
  await Promise.race([registration.settled(signal), failed]);
  logger.info({ incarnation, address, slots: engines.capacity, healthPort: health.port }, 'registered');

  let closing: Promise<void> | undefined;
  async function close(): Promise<void> {
    ending = true;
    drain(true);
    registration.changed();
    await endWork({ attempts, sessions: live.sessions, settings, kube, logger });
    if (service.watches > 0) await attempts.acknowledged(AbortSignal.timeout(ACKNOWLEDGE_MS));
    await undo();
  }
  return {
    incarnation,
    address,
    healthPort: health.port,
    failed,
    close: () => (closing ??= close()),
  };
}

function failIf(condition: boolean, reason: string): void {
  if (condition) throw new Error(reason);
}

function bracketed(host: string): string {
  return host.includes(':') ? `[${host}]` : host;
}
