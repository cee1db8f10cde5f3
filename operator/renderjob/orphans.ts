import { createWorkQueue } from '@semblance/common/async/work-queue';
import type { Reflector } from '@semblance/common/kube/index';
import type { Logger } from '@semblance/common/logging';
import type { RenderJob } from '@semblance/crds/gen/renderjobs';
import type { Registry } from 'prom-client';
import type { Fleet } from '../agents/fleet.ts';
import { isTerminal } from './attempt-state.ts';
import type { FactStore } from './facts.ts';
import { attemptOf, isFinished } from './status.ts';

export interface OrphansOptions {
  readonly jobs: Reflector<RenderJob>;
  readonly fleet: Fleet;
  readonly facts: FactStore;
  readonly logger: Logger;
  readonly registry: Registry;
  /** Called when a slot of the agent became free. */
  readonly onEnded: (agent: string) => void;
}

/** Ends and forgets attempts that agents hold but no RenderJob asks for. */
export interface Orphans {
  consider(agent: string, incarnation: string, uid: string, attempt: number): void;
  run(signal: AbortSignal): Promise<void>;
}

/**
 * `ours`: the present attempt of an unfinished job. `done`: its result is recorded. `future`: the local copy of the job lags behind, because every attempt is written to the resource before it begins.
 */
function disposition(
  job: RenderJob | undefined,
  agent: string,
  incarnation: string,
  attempt: number,
): 'ours' | 'done' | 'orphan' | 'future' {
  if (!job) return 'orphan';
  if (attempt > attemptOf(job)) return 'future';
  const bound = job.status?.agent === agent && job.status.agentIncarnation === incarnation;
  if (attempt < attemptOf(job) || !bound) return 'orphan';
  return isFinished(job) || job.status?.phase === 'Pending' || job.status?.phase === 'Suspended'
    ? 'done'
    : 'ours';
}

export function createOrphans(options: OrphansOptions): Orphans {
  const { jobs, fleet, facts, logger } = options;

  async function process(key: string, signal: AbortSignal): Promise<undefined> {
    const [agent = '', incarnation = '', uid = '', number = ''] = key.split('\0');
    const attempt = Number(number);
    const link = fleet.linkTo(agent, incarnation);
    if (!link?.connected) return;
    const state = disposition(jobs.byUid(uid), agent, incarnation, attempt);
    if (state === 'ours' || state === 'future') return;
    const ref = { jobUid: uid, attempt };
    const { report } = facts.get(uid, attempt, agent, incarnation);
    if (!report || !isTerminal(report.state)) {
      logger.info({ agent, ...ref }, 'stopping an attempt that no RenderJob asks for');
      await link.stop(ref, 'no RenderJob asks for it', signal);
      facts.learn(uid, attempt, agent, incarnation, { stopped: true });
      options.onEnded(agent);
    }
    await link.acknowledge(ref, signal);
    const job = jobs.byUid(uid);
    facts.forget(uid, job ? attemptOf(job) : undefined);
  }

  const queue = createWorkQueue({
    process,
    concurrency: 4,
    name: 'orphans',
    logger,
    registry: options.registry,
    maxDelayMs: 10_000,
  });

  return {
    consider(agent, incarnation, uid, attempt) {
      const state = disposition(jobs.byUid(uid), agent, incarnation, attempt);
      if (state === 'orphan' || state === 'done') queue.add([agent, incarnation, uid, attempt].join('\0'));
    },
    run: queue.run,
  };
}
