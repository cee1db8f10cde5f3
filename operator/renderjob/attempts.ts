import { jittered, pause } from '@semblance/common/async/backoff';
import { describeError } from '@semblance/common/errors';
import { TextMissingError } from '@semblance/common/job-texts';
import type { Logger } from '@semblance/common/logging';
import { annotatedTrace } from '@semblance/common/tracing/traceparent';
import { inSpan } from '@semblance/common/tracing/tracing';
import type { RenderJob } from '@semblance/crds/gen/renderjobs';
import type { ObjectStore } from '@semblance/objects/store';
import type { Fleet } from '../agents/fleet.ts';
import type { AgentLink } from '../agents/link.ts';
import type { OperatorMetrics } from '../metrics.ts';
import type { FactStore } from './facts.ts';
import { signLinks } from './outputs.ts';
import { attemptOf } from './status.ts';
import type { Texts } from './texts.ts';

/** Most tries at an agent whose slot is free in the operator's books; its own may lag a moment behind. */
const BUSY_TRIES = 20;
const BUSY_RETRY_MS = 100;
/** Pause for an agent that refused work, in ms. */
const REFUSED_PAUSE_MS = 1_000;

export interface AttemptsOptions {
  readonly fleet: Fleet;
  readonly facts: FactStore;
  readonly objects: ObjectStore;
  readonly texts: Pick<Texts, 'parametersOf'>;
  readonly metrics: OperatorMetrics;
  readonly logger: Logger;
}

/** Calls to agents for the present attempt of a job. Their answers become facts. */
export interface Attempts {
  start(job: RenderJob, signal: AbortSignal): Promise<void>;
  stop(job: RenderJob, reason: string, signal: AbortSignal): Promise<void>;
  acknowledge(job: RenderJob, signal: AbortSignal): Promise<void>;
}

export function createAttempts(options: AttemptsOptions): Attempts {
  const { fleet, facts, objects, metrics, logger } = options;

  function addressed(job: RenderJob) {
    const { agent = '', agentIncarnation = '' } = job.status ?? {};
    const ref = { jobUid: job.metadata.uid ?? '', attempt: attemptOf(job) };
    const link = fleet.linkTo(agent, agentIncarnation);
    const learn = (learnt: Parameters<FactStore['learn']>[4]) =>
      facts.learn(ref.jobUid, ref.attempt, agent, agentIncarnation, learnt);
    return { ref, link, learn };
  }

  function needed(link: AgentLink | undefined, job: RenderJob): AgentLink {
    if (!link) throw new Error(`there is no connection to ${job.status?.agent}`);
    return link;
  }

  /** Asks the agent to take the attempt until it accepts or refuses. */
  async function ask(
    job: RenderJob,
    signal: AbortSignal,
    { ref, link, learn }: ReturnType<typeof addressed>,
    traceparent: string | undefined,
  ): Promise<void> {
    const { inputs, sinks, previewSink } = await signLinks(objects, job, ref.attempt);
    const { name = '', namespace = '' } = job.metadata;
    const { capability, engineOptions = {}, activeDeadlineSeconds: deadlineSeconds = 3_600 } = job.spec;
    let parameters: Readonly<Record<string, string>>;
    try {
      parameters = await options.texts.parametersOf(job, signal);
    } catch (error) {
      if (!(error instanceof TextMissingError)) throw error;
      logger.warn({ job: name, ...ref }, `cannot start an attempt: ${error.message}`);
      return learn({ startRefused: { kind: 'unable', message: error.message } });
    }
    const request = {
      ref,
      jobName: name,
      namespace,
      incarnation: needed(link, job).incarnation,
      capability,
      parameters: { ...parameters },
      engineOptions,
      inputs,
      sinks,
      previewSink,
      deadlineSeconds,
      requestId: name,
    };
    for (let tries = 1; ; tries++) {
      const refusal = await needed(link, job).start(request, signal, traceparent);
      if (!refusal) {
        learn({ startAccepted: true });
        metrics.dispatched(job);
        return;
      }
      if (refusal.kind === 'busy' && tries < BUSY_TRIES) {
        await pause(jittered(BUSY_RETRY_MS), signal);
        continue;
      }
      logger.warn(
        { job: name, agent: job.status?.agent, ...ref, ...refusal },
        'the agent refused an attempt',
      );
      learn({ startRefused: refusal });
      fleet.pause(job.status?.agent ?? '', REFUSED_PAUSE_MS);
      return;
    }
  }

  return {
    async start(job, signal) {
      const to = addressed(job);
      const attributes = {
        'semblance.job_id': job.metadata.name ?? '',
        'semblance.agent': job.status?.agent ?? '',
        'semblance.attempt': to.ref.attempt,
      };
      const parent = annotatedTrace(job.metadata.annotations);
      await inSpan('start attempt', { kind: 'producer', parent, attributes }, (traceparent) =>
        ask(job, signal, to, traceparent),
      );
    },
    async stop(job, reason, signal) {
      const { ref, link, learn } = addressed(job);
      await needed(link, job).stop(ref, reason, signal);
      learn({ stopped: true });
    },
    async acknowledge(job, signal) {
      const { ref, link, learn } = addressed(job);
      try {
        await link?.acknowledge(ref, signal);
        if (link) learn({ acknowledged: true });
      } catch (error) {
        // The agent reports the result again after it reconnects.
        logger.debug({ ...ref, reason: describeError(error) }, 'cannot acknowledge a result');
      }
    },
  };
}
