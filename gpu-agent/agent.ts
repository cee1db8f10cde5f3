import { expiryCheck, observeExpiry } from '@semblance/common/grpc/tls/expiry';
import type { Tls } from '@semblance/common/grpc/tls/tls';
import { createRegistry, startHealthServer } from '@semblance/common/health';
import { newId } from '@semblance/common/ids';
import type { Logger } from '@semblance/common/logging';
import { createDispatcher, DEFAULT_TRANSFER_LIMITS, type TransferLimits } from './assets/transfer.ts';
import { openWorkDir } from './assets/work-dir.ts';
import { createAgentService } from './attempts/agent-service.ts';
import { createAttempts } from './attempts/attempts.ts';
import { type ContentChecks, createContentChecks } from './content-check/content-checks.ts';
import { endWork } from './ending.ts';
// The main thread must turn the telemetry off, because a worker thread of live sessions cannot.
import '@semblance/vision/models/no-telemetry';
import { raceAbort } from '@semblance/common/async/abort';
import { VERSION } from '@semblance/common/version';
import type { LiveEngine } from '@semblance/engine-api/live-engine';
import { createProvenance, type Provenance } from '@semblance/provenance/provenance';
import type { EngineSource } from './engines/registry.ts';
import { type StartEnginesOptions, startEngines } from './engines/start-engines.ts';
import { createInspections } from './inspections/inspections.ts';
import { createLive } from './live/live.ts';
import { type AgentMetrics, createAgentMetrics } from './metrics.ts';
import { keepRegistered, openRegistration } from './registration/open-registration.ts';
import type { AgentStatement, LeaseTimes } from './registration/registration.ts';
import { workStatement } from './registration/work-statement.ts';
import { readyChecks, startServices } from './services.ts';
import type { AgentSettings } from './settings.ts';

/** Time for the operator to record the last results before the process ends, in ms. */
const ACKNOWLEDGE_MS = 3_000;
/** Most cards in the statement. */
const MAX_CARDS = 16;

export interface AgentOptions {
  readonly settings: AgentSettings;
  readonly logger: Logger;
  /** Undefined: gRPC is not encrypted. */
  readonly tls?: Tls | undefined;
  /** Aborts the start. A started agent ends by `close`. */
  readonly signal: AbortSignal;
  /** Default: those named in the settings. */
  readonly engines?: readonly EngineSource[];
  /** Default: by the certificate named in the settings. */
  readonly provenance?: Provenance;
  /** Default: from the length in the settings. */
  readonly leaseTimes?: LeaseTimes;
  readonly transferLimits?: TransferLimits;
  /** Time for a cancelled render to end before its process is killed, in ms. Default: that of the engine contract. */
  readonly cancelGraceMs?: number | undefined;
  /** How the memory of the cards is read. */
  readonly cards?: StartEnginesOptions['cards'];
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
  const metrics = createAgentMetrics(registry, {
    slots: () => engines.capacity,
    slotsUsed: () => attempts.slotsUsed,
    deviceGone: () => engines.deviceTrouble !== undefined,
    unacknowledged: () => attempts.list().filter(({ outcome }) => outcome).length,
  });
  const transferLimits = options.transferLimits ?? DEFAULT_TRANSFER_LIMITS;
  const dispatcher = createDispatcher(transferLimits);
  started.push(() => dispatcher.destroy());

  // The registration is created before the parts that report changes to it. An engine may become warm, or its
  // device may be missing, before the other parts exist.
  const { kube, registration } = openRegistration({
    settings,
    leaseTimes: options.leaseTimes,
    logger,
    started,
    incarnation,
    certificate: options.tls?.current.certificate.toString(),
    registry,
    statement: () => statement(),
    onFenced(reason) {
      void attempts.endAll(`the agent lost its lease: ${reason}`);
      void live.sessions.endAll({ reason: 'render_failed', message: 'the agent lost its lease' });
    },
    onRestored: () => logger.info('holding the Lease again'),
    onDrain(wanted) {
      if (!ending) drain(wanted);
    },
  });

  const { engines, isolation, measure, media, cards, tried, firstReady } = await startEngines({
    ...options,
    tempDir: workDir.engines,
    started,
    onChange: () => registration.changed(),
    onCrash: (engine) => metrics.engineRestarts.inc({ engine }),
  });

  const contentChecks = await openContentChecks(options, metrics);
  started.push(() => contentChecks.close());
  const provenance = await openProvenance(options, () => registration.changed());

  const attempts = createAttempts({
    engines,
    workDir,
    contentChecks,
    provenance,
    meter: measure,
    media,
    dispatcher,
    metrics,
    logger,
    holdsLease: () => registration.holdsLease,
    transferLimits,
  });

  const inspections = createInspections({
    engines,
    attempts,
    memoryMib: settings.memoryMib,
    workDir,
    contentChecks,
    dispatcher,
    transferLimits,
    metrics,
    logger,
  });
  started.push(async () => inspections.close());

  const live = await createLive({
    settings: settings.live,
    builtin: settings.engineSettings.builtin,
    onnx: settings.engines.includes('onnx') ? settings.engineSettings.onnx : undefined,
    incarnation,
    registry,
    metrics,
    workDir,
    dispatcher,
    transferLimits,
    contentChecks,
    samplePicturesMs: settings.contentCheck.livePictureMs,
    logger,
    holdsLease: () => registration.holdsLease,
    onChange: () => registration.changed(),
    ...(options.liveEngines ? { engines: options.liveEngines } : {}),
  });
  started.push(() => live.close());

  function drain(wanted: boolean): void {
    attempts.drain(wanted);
    live.sessions.drain(wanted);
  }
  const service = createAgentService({ attempts, incarnation, logger, metrics });
  const { tls } = options;
  const parts = { settings, tls, workDir, attempts: service, inspections, live, logger, metrics };
  const grpc = await startServices(parts);
  started.push(grpc.close);
  const address = settings.advertise ?? `${bracketed(settings.listen.host)}:${grpc.port}`;

  const health = await startHealthServer({
    listen: settings.healthListen,
    service: 'gpu-agent',
    registry,
    ready: { ...readyChecks({ engines, registration, isEnding: () => ending }), ...expiryCheck(tls) },
  });
  started.push(() => health.close());

  const statement = (): AgentStatement => ({
    incarnation,
    address,
    node: settings.node,
    version: VERSION,
    memoryMib: settings.memoryMib,
    cards: (cards?.statement ?? []).slice(0, MAX_CARDS),
    ...workStatement({ engines, live, ending }),
    contentCheck: contentChecks.statement,
    mediaIsolation: {
      walls: [...isolation.stands],
      missing: isolation.missing.map(({ wall, why }) => ({ name: wall, message: why.slice(0, 1_024) })),
    },
    provenance: provenance.statement,
  });

  // Live sessions start after the renders, so that they do not delay the readiness for renders.
  void tried.then(() => {
    if (!ending && !signal.aborted) live.start();
  });
  // The agent registers while its engines warm up, so that others see it early.
  await registration.start(signal);
  const { failed, leave } = keepRegistered(registration);
  started.push(leave);
  await raceAbort(signal, Promise.race([firstReady(), failed]));
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

function openContentChecks(
  { settings, logger }: AgentOptions,
  metrics: AgentMetrics,
): Promise<ContentChecks> {
  return createContentChecks({
    settings: settings.contentCheck,
    nice: settings.renderNice,
    logger,
    onResult: (check, phase, result) => metrics.contentChecks.inc({ check, phase, result }),
  });
}

async function openProvenance(options: AgentOptions, onChange: () => void): Promise<Provenance> {
  if (options.provenance) return options.provenance;
  const { settings, logger } = options;
  const generator = { name: 'Semblance', version: VERSION };
  return createProvenance({ signer: settings.signer, generator, logger, onChange });
}

function bracketed(host: string): string {
  return host.includes(':') ? `[${host}]` : host;
}
