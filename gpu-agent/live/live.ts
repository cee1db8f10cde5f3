import { describeError } from '@semblance/common/errors';
import type { Logger } from '@semblance/common/logging';
import type { GpuAgentStatus } from '@semblance/crds/gen/gpuagents';
import type { LiveEngine } from '@semblance/engine-api/live-engine';
import type { Registry } from 'prom-client';
import type { Dispatcher } from 'undici';
import type { TransferLimits } from '../assets/transfer.ts';
import type { WorkDir } from '../assets/work-dir.ts';
import type { ContentChecks } from '../content-check/content-checks.ts';
import type { AgentMetrics } from '../metrics.ts';
import { createLiveEngines } from './engines/live-engines.ts';
import { createLiveMetrics } from './live-metrics.ts';
import { inputChecker } from './sessions/check-inputs.ts';
import { inputFetcher } from './sessions/fetch-inputs.ts';
import { createLiveService, type LiveService } from './sessions/live-service.ts';
import { createLiveSessions, type LiveSessions } from './sessions/live-sessions.ts';
import { pictureSampler } from './sessions/sampled-pictures.ts';
import type { SessionEnd, SessionTableLimits } from './sessions/session-table.ts';
import type { LiveSettings } from './settings.ts';

/** End of sessions whose agent process ends for a reason outside them. */
export const AGENT_ENDS: SessionEnd = {
  reason: 'cancelled',
  message: 'the agent is ending; open another session',
  goingAway: true,
};

export interface LiveOptions {
  readonly settings: LiveSettings;
  /** Settings of the engine `builtin`; undefined: the defaults. */
  readonly builtin?: Readonly<Record<string, string>> | undefined;
  /** Settings of the engine `onnx`; undefined when it is not used. */
  readonly onnx?: Readonly<Record<string, string>> | undefined;
  readonly incarnation: string;
  readonly registry: Registry;
  readonly metrics: AgentMetrics;
  readonly workDir: WorkDir;
  readonly dispatcher: Dispatcher;
  readonly transferLimits: TransferLimits;
  /** Checks the inputs of sessions. */
  readonly contentChecks: Pick<ContentChecks, 'assertAllowed'>;
  readonly logger: Logger;
  /** Whether the agent holds its Lease, by its own clock, and so may work. */
  readonly holdsLease: () => boolean;
  /** Called when `statement` changed. */
  readonly onChange: () => void;
  /** Default: the engines to which the settings give slots. */
  readonly engines?: readonly LiveEngine[];
  readonly limits?: SessionTableLimits;
  /** Time for all content checks of a session together, in ms. */
  readonly checkWithinMs?: number;
  /** Least time between two pictures of a session that are checked, in ms; 0: none is. */
  readonly samplePicturesMs?: number;
}

/** The live part of an agent. */
export interface Live {
  readonly sessions: LiveSessions;
  readonly service: LiveService;
  /** Statement in the GpuAgent's status: slots when threads are warm, and `warming` before. */
  readonly statement: NonNullable<GpuAgentStatus['live']>;
  /** Requested capabilities that cannot be offered, with the reason. */
  readonly unavailable: readonly { readonly name: string; readonly message: string }[];
  /** Begins to warm up the engines. */
  start(): void;
  /** Ends the remaining sessions and the engines. */
  close(): Promise<void>;
}

export async function createLive(options: LiveOptions): Promise<Live> {
  const { settings, logger, incarnation, onChange } = options;
  const metrics = createLiveMetrics(options.registry, () =>
    engines.map(({ capability, slots }) => ({ capability, slots, used: sessions.held(capability) })),
  );
  const { engines, unavailable } = options.engines
    ? { engines: options.engines, unavailable: [] }
    : await createLiveEngines({
        settings,
        builtin: options.builtin,
        onnx: options.onnx,
        logger,
        onChange,
        onCrash: (capability) => metrics.threadRestarts.inc({ capability }),
      });
  const sessions = createLiveSessions({
    engines,
    fetchInputs: inputFetcher(options),
    checkInputs: inputChecker(options.contentChecks, options.checkWithinMs),
    metrics,
    logger,
    holdsLease: options.holdsLease,
    ...(options.limits ? { limits: options.limits } : {}),
  });
  const samplePictures = pictureSampler({ ...options, everyMs: options.samplePicturesMs ?? 0 });
  const service = createLiveService({
    sessions,
    incarnation,
    samplePictures,
    logger,
    metrics: options.metrics,
  });
  const closing = new AbortController();

  return {
    sessions,
    service,
    get statement() {
      return engines.map(({ capability, slots, warming, engine }) => ({
        name: capability,
        slots,
        warming,
        ...(engine === undefined ? {} : { engine }),
      }));
    },
    unavailable,
    start() {
      if (closing.signal.aborted) return;
      for (const { capability, warmUp } of engines) {
        warmUp(closing.signal).then(
          () => {
            logger.info({ capability }, 'ready for live sessions');
            onChange();
          },
          (error: unknown) => {
            if (closing.signal.aborted) return;
            logger.error(
              { err: error, capability },
              `cannot warm up live ${capability}: ${describeError(error)}`,
            );
          },
        );
      }
    },
    async close() {
      closing.abort(new Error('the agent is ending'));
      await sessions.endAll(AGENT_ENDS);
      await Promise.all(engines.map((engine) => engine.close()));
    },
  };
}
