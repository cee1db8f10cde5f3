import { createChanges } from '@semblance/common/async/changes';
import { createListeners } from '@semblance/common/async/listeners';
import type { Logger } from '@semblance/common/logging';
import type { Provenance } from '@semblance/provenance/provenance';
import type { Dispatcher } from 'undici';
import type { TransferLimits } from '../assets/transfer.ts';
import type { WorkDir } from '../assets/work-dir.ts';
import type { ContentChecks } from '../content-check/content-checks.ts';
import type { ChosenEngine, EngineSet } from '../engines/engine-set.ts';
import type { AgentMetrics } from '../metrics.ts';
import { type Attempt, type AttemptRef, createAttemptTable, type StartDecision } from './attempt-table.ts';
import { AttemptEnded } from './endings.ts';
import type { VideoMeter } from './measured-units.ts';
import type { VideoReader } from './preview.ts';
import { runAttempt } from './run-attempt.ts';
import type { AttemptWork } from './start-request.ts';

/** Shortest interval between two progress events of one attempt, in ms. */
const PROGRESS_MS = 250;

export class StartRefusedError extends Error {
  override readonly name = 'StartRefusedError';
  readonly code: 'fenced' | 'draining' | 'no-slot' | 'no-engine' | 'no-lease';
  readonly retryable: boolean;

  constructor(code: StartRefusedError['code'], message: string) {
    super(message);
    this.code = code;
    this.retryable = code === 'no-slot' || code === 'no-lease';
  }
}

export interface AttemptsOptions {
  readonly engines: EngineSet;
  readonly workDir: WorkDir;
  readonly contentChecks: ContentChecks;
  readonly provenance: Provenance;
  readonly meter: VideoMeter | undefined;
  /** For previews of videos. */
  readonly media?: VideoReader | undefined;
  readonly dispatcher: Dispatcher;
  readonly metrics: AgentMetrics;
  readonly logger: Logger;
  /** Whether the agent holds its Lease, by its own clock, and so may work. */
  readonly holdsLease: () => boolean;
  readonly transferLimits?: TransferLimits;
}

export interface Attempts {
  /**
   * Begins an attempt, once.
   * @throws StartRefusedError
   */
  start(work: AttemptWork): Promise<void>;
  /** Resolves when the attempt and all older ones of its job have ended. */
  stop(ref: AttemptRef, reason: string): Promise<void>;
  acknowledge(ref: AttemptRef): 'forgotten' | 'unknown' | 'running';
  get(ref: AttemptRef): Attempt | undefined;
  list(): Attempt[];
  /** Calls the listener for each changed attempt; progress is throttled. Returns the function that unsubscribes. */
  subscribe(listener: (ref: AttemptRef) => void): () => void;
  /** Ends all running attempts; resolves when they have ended. */
  endAll(message: string): Promise<void>;
  /** While true, starts are refused and running attempts go on. */
  drain(wanted: boolean): void;
  /** Resolves when nothing runs, or the signal aborts. */
  idle(signal: AbortSignal): Promise<void>;
  /** Resolves when every result was acknowledged, or the signal aborts. */
  acknowledged(signal: AbortSignal): Promise<void>;
  readonly draining: boolean;
  readonly slotsUsed: number;
  /** What the running renders may take at most, in MiB. */
  readonly memoryUsedMib: number;
}

interface Running {
  readonly controller: AbortController;
  readonly ended: Promise<void>;
  readonly memoryMib: number;
}

const keyOf = (ref: AttemptRef) => `${ref.jobUid}/${ref.attempt}`;

/** Creates the attempts of this agent: the rules of the table joined to the work itself. */
export function createAttempts(options: AttemptsOptions): Attempts {
  const { engines, metrics } = options;
  const table = createAttemptTable();
  const running = new Map<string, Running>();
  const { tell, subscribe } = createListeners<AttemptRef>();
  const changes = createChanges();
  let draining = false;

  async function start(work: AttemptWork): Promise<void> {
    for (;;) {
      const engine = choose(options, work);
      const decision = decide(work, engine);
      if (decision.kind === 'known') return;
      if (decision.kind === 'refused') {
        metrics.refusals.inc({ why: decision.why });
        throw new StartRefusedError(decision.why, decision.message);
      }
      if (decision.kind === 'begin') return begin(work, engine);
      await end(
        decision.older,
        new AttemptEnded('stopped', `attempt ${work.ref.attempt} of the job has come`),
      );
    }
  }

  function decide(work: AttemptWork, engine: ChosenEngine): StartDecision {
    if (!options.holdsLease() && !table.get(work.ref)) {
      throw new StartRefusedError('no-lease', 'the agent cannot renew its lease');
    }
    return table.start(work.ref, {
      slots: engine.slots,
      capacity: engines.capacity,
      draining,
      now: Date.now(),
    });
  }

  function begin(work: AttemptWork, engine: ChosenEngine): void {
    const { ref } = work;
    const logger = options.logger.child({
      jobUid: ref.jobUid,
      attempt: ref.attempt,
      job: work.jobName,
      capability: work.capability,
      ...(work.requestId ? { requestId: work.requestId } : {}),
    });
    const controller = new AbortController();
    const { memoryMib } = engine.offer;
    running.set(keyOf(ref), { controller, ended: carryOut(work, engine, controller, logger), memoryMib });
    logger.info('attempt begun');
    tell(ref);
  }

  async function carryOut(
    work: AttemptWork,
    engine: ChosenEngine,
    controller: AbortController,
    logger: Logger,
  ): Promise<void> {
    const { ref, deadlineMs } = work;
    const deadline =
      deadlineMs === undefined
        ? undefined
        : setTimeout(() => {
            const message = `The work did not finish within ${deadlineMs / 1000} s.`;
            controller.abort(new AttemptEnded('interrupted', message));
          }, deadlineMs);
    const progress = thinned(() => tell(ref));
    // The caller adds the attempt to `running` during this wait, so that an end of the attempt finds it there.
    await Promise.resolve();
    const outcome = await runAttempt({
      work,
      engine,
      workDir: options.workDir,
      contentChecks: options.contentChecks,
      provenance: options.provenance,
      meter: options.meter,
      media: options.media,
      dispatcher: options.dispatcher,
      metrics,
      logger,
      signal: controller.signal,
      assertLive() {
        if (!options.holdsLease()) throw new AttemptEnded('stopped', 'the agent lost its lease');
      },
      onProgress(fraction, stage, secondsLeft) {
        const stageBefore = table.get(ref)?.stage;
        const now = Date.now();
        if (table.progress(ref, { fraction, stage, secondsLeft, now }))
          progress.changed(stage !== stageBefore);
      },
      ...(options.transferLimits ? { transferLimits: options.transferLimits } : {}),
    });
    clearTimeout(deadline);
    progress.stop();
    running.delete(keyOf(ref));
    table.finish(ref, outcome, Date.now());
    metrics.attempts.inc({ capability: work.capability, outcome: outcome.state });
    const reason = outcome.state === 'succeeded' ? undefined : outcome.failure.message;
    logger.info({ outcome: outcome.state, reason }, 'attempt ended');
    tell(ref);
    changes.changed();
  }

  /** Ends one attempt if it runs. The first reason counts. */
  async function end(ref: AttemptRef, reason: AttemptEnded): Promise<void> {
    const held = running.get(keyOf(ref));
    held?.controller.abort(reason);
    await held?.ended;
  }

  return {
    start,
    async stop(ref, reason) {
      const message = reason ? `stopped: ${reason}`.slice(0, 1024) : 'stopped';
      const older = table.stop(ref, Date.now());
      await Promise.all(older.map((each) => end(each, new AttemptEnded('stopped', message))));
    },
    acknowledge(ref) {
      const answer = table.acknowledge(ref);
      if (answer === 'forgotten') changes.changed();
      return answer;
    },
    get: (ref) => table.get(ref),
    list: () => table.list(),
    subscribe,
    async endAll(message) {
      await Promise.all(table.running().map(({ ref }) => end(ref, new AttemptEnded('stopped', message))));
    },
    drain(wanted) {
      draining = wanted;
    },
    idle: (signal) => changes.until(() => running.size === 0, signal),
    acknowledged: (signal) => changes.until(() => table.list().length === 0, signal),
    get draining() {
      return draining;
    },
    get slotsUsed() {
      return table.slotsUsed;
    },
    get memoryUsedMib() {
      return [...running.values()].reduce((sum, { memoryMib }) => sum + memoryMib, 0);
    },
  };
}

/** Returns the engine for the work. @throws StartRefusedError */
function choose(
  { engines, metrics }: Pick<AttemptsOptions, 'engines' | 'metrics'>,
  { capability }: AttemptWork,
): ChosenEngine {
  const engine = engines.find(capability);
  if (engine) return engine;
  // The engine was announced a moment ago, so the start is no error, and another agent may take it.
  if (engines.misses(capability)) {
    metrics.refusals.inc({ why: 'no-slot' });
    throw new StartRefusedError('no-slot', `the engine that does ${capability} does not answer`);
  }
  throw new StartRefusedError('no-engine', `no engine here does ${capability}`);
}

/** Calls `tell` at once for urgent or rare changes, and otherwise once at the end of each period. */
function thinned(tell: () => void): { changed(urgent: boolean): void; stop(): void } {
  let timer: NodeJS.Timeout | undefined;
  let lastAt = Number.NEGATIVE_INFINITY;
  const now = () => {
    clearTimeout(timer);
    timer = undefined;
    lastAt = performance.now();
    tell();
  };
  return {
    changed(urgent) {
      const wait = lastAt + PROGRESS_MS - performance.now();
      if (urgent || wait <= 0) now();
      else timer ??= setTimeout(now, wait);
    },
    stop: () => clearTimeout(timer),
  };
}
