import { raceAbort } from '@semblance/common/async/abort';
import type { Logger } from '@semblance/common/logging';
import { RenderError } from '@semblance/engine-api/engine';
import type { Findings } from '@semblance/engine-api/findings';
import type { Dispatcher } from 'undici';
import { AssetError } from '../assets/errors.ts';
import { fetchInputs } from '../assets/fetch-inputs.ts';
import { readyInputs } from '../assets/ready-inputs.ts';
import type { TransferLimits } from '../assets/transfer.ts';
import type { WorkDir } from '../assets/work-dir.ts';
import { inputsFor } from '../attempts/attempt-faces.ts';
import type { AttemptFailure } from '../attempts/attempt-table.ts';
import type { Attempts } from '../attempts/attempts.ts';
import { failedOutcome } from '../attempts/failed-outcome.ts';
import type { ContentChecks } from '../content-check/content-checks.ts';
import { inputSubject } from '../content-check/input-subject.ts';
import type { ChosenEngine, EngineSet } from '../engines/engine-set.ts';
import { EngineUnavailableError } from '../engines/host/engine-pool.ts';
import type { AgentMetrics } from '../metrics.ts';
import type { Inspection } from './inspect-request.ts';

/** Longest time of an inspection with its wait, in ms. */
const LIMIT_MS = 5_000;
/** The same for a search for people, and for a preview, which read videos. */
const FRAMES_LIMIT_MS = 20_000;
/** Most inspections that wait for their turn. */
const MAX_WAITING = 16;

/** Nothing was looked at. */
export class NotInspectedError extends Error {
  override readonly name = 'NotInspectedError';
  readonly code: 'busy' | 'unsupported' | 'draining' | 'timed_out' | 'failed';
  readonly retryable = true;

  constructor(code: NotInspectedError['code'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** What was found out, and why a render would fail. */
export interface Inspected {
  readonly findings: Findings | undefined;
  readonly refusal: Omit<AttemptFailure, 'findings'> | undefined;
}

export interface InspectionsOptions {
  readonly engines: Pick<EngineSet, 'find' | 'capacity'>;
  readonly attempts: Pick<Attempts, 'slotsUsed' | 'memoryUsedMib' | 'draining' | 'subscribe'>;
  /** Memory for renders, in MiB. */
  readonly memoryMib: number;
  readonly workDir: Pick<WorkDir, 'attempt'>;
  readonly contentChecks: Pick<ContentChecks, 'assertAllowed'>;
  readonly dispatcher: Dispatcher;
  readonly transferLimits: TransferLimits;
  readonly metrics: AgentMetrics;
  readonly logger: Logger;
  /** Default {@link LIMIT_MS}. */
  readonly limitMs?: number;
}

export interface Inspections {
  /**
   * Looks at pictures, after those that came before.
   * @param caller aborts when nobody waits any more
   * @throws NotInspectedError, or the caller's reason
   */
  inspect(work: Inspection, caller: AbortSignal): Promise<Inspected>;
  close(): void;
}

/**
 * Inspects one job's pictures at a time, in an engine process that no attempt uses. An attempt that needs the room
 * ends the inspection.
 */
export function createInspections(options: InspectionsOptions): Inspections {
  const { engines, attempts, memoryMib, metrics } = options;
  const closing = new AbortController();
  let last: Promise<unknown> = Promise.resolve();
  let waiting = 0;
  let current: { readonly engine: ChosenEngine; readonly yielding: AbortController } | undefined;

  const hasRoom = ({ slots, offer }: ChosenEngine) => {
    if (attempts.slotsUsed + slots > engines.capacity) return false;
    // As for renders, the stated memory of the first does not matter.
    return attempts.slotsUsed === 0 || attempts.memoryUsedMib + offer.memoryMib <= memoryMib;
  };
  const noRoom = () => new NotInspectedError('busy', 'renders need all slots or all memory of this agent');

  const unsubscribe = attempts.subscribe(() => {
    if (current && !hasRoom(current.engine)) current.yielding.abort(noRoom());
  });

  function choose({ capability, people, preview }: Inspection): ChosenEngine {
    if (attempts.draining) throw new NotInspectedError('draining', 'the agent takes no more work');
    const engine = engines.find(capability);
    const can = engine?.pool.engine;
    if (people ? can?.findsPeople : preview ? can?.previewsSwaps : can?.inspects)
      return engine as ChosenEngine;
    throw new NotInspectedError('unsupported', `no engine here looks at pictures of ${capability}`);
  }

  async function look(work: Inspection, signal: AbortSignal): Promise<Inspected> {
    const engine = choose(work);
    if (!hasRoom(engine)) throw noRoom();
    const yielding = new AbortController();
    current = { engine, yielding };
    const logger = options.logger.child({ inspection: work.id, capability: work.capability });
    const either = AbortSignal.any([signal, yielding.signal]);
    try {
      return { findings: await lookIn(options, engine, work, either, logger), refusal: undefined };
    } catch (error) {
      either.throwIfAborted();
      return refusedBy(error, logger);
    } finally {
      current = undefined;
    }
  }

  /** Waits until the ones before have ended. */
  async function inTurn<T>(signal: AbortSignal, act: () => Promise<T>): Promise<T> {
    const before = last;
    const ended = Promise.withResolvers<void>();
    last = before.then(() => ended.promise);
    waiting++;
    try {
      await raceAbort(signal, before);
      return await act();
    } finally {
      waiting--;
      ended.resolve();
    }
  }

  return {
    async inspect(work, caller) {
      const late = AbortSignal.timeout(
        options.limitMs ?? (work.people || work.preview ? FRAMES_LIMIT_MS : LIMIT_MS),
      );
      const signal = AbortSignal.any([caller, closing.signal, late]);
      const end = (outcome: string) => metrics.inspections.inc({ capability: work.capability, outcome });
      try {
        choose(work);
        if (waiting > MAX_WAITING) throw new NotInspectedError('busy', 'too many inspections wait');
        const result = await inTurn(signal, () => look(work, signal));
        end(result.refusal ? 'refused' : 'inspected');
        return result;
      } catch (error) {
        const told = signal.aborted && late.aborted ? tooLate(error) : error;
        end(told instanceof NotInspectedError ? told.code : 'cancelled');
        throw told;
      }
    },
    close() {
      unsubscribe();
      closing.abort(new NotInspectedError('draining', 'the agent ends'));
    },
  };
}

const tooLate = (cause: unknown) => new NotInspectedError('timed_out', 'it took too long', { cause });

/** Fetches, checks, inspects. When it settles, nothing of it runs and its files are removed. */
async function lookIn(
  { workDir, contentChecks, dispatcher, transferLimits: limits, metrics }: InspectionsOptions,
  { pool, offer }: ChosenEngine,
  work: Inspection,
  signal: AbortSignal,
  logger: Logger,
): Promise<Findings> {
  const { capability, parameters, people, preview } = work;
  const dir = await workDir.attempt(`inspection-${work.id}`);
  try {
    const transfer = { dispatcher, signal, logger, limits };
    const wanted = inputsFor(work, offer);
    const inputs = await fetchInputs({ ...transfer, inputs: wanted, dir: dir.inputs, offer, metrics });
    const subject = inputSubject({ jobName: `inspection-${work.id}`, capability, parameters }, inputs);
    await contentChecks.assertAllowed(subject, { signal, logger });
    const ready = await readyInputs(capability, inputs, offer, signal);
    const asked = { ...(people && { people }), ...(preview && { preview }) };
    return await pool.inspect({ capability, inputs: ready, parameters, ...asked }, signal);
  } finally {
    await dir.remove();
  }
}

/** Returns why a render would fail, when the pictures are the cause. @throws NotInspectedError otherwise */
function refusedBy(error: unknown, logger: Logger): Inspected {
  if (error instanceof EngineUnavailableError)
    throw new NotInspectedError('busy', error.message, { cause: error });
  const outcome = failedOutcome(error, logger);
  const byPicture = error instanceof RenderError || error instanceof AssetError;
  if (outcome.state === 'failed' && byPicture) {
    const { findings, ...refusal } = outcome.failure;
    return { findings, refusal };
  }
  throw new NotInspectedError('failed', 'the inspection did not work', { cause: error });
}
