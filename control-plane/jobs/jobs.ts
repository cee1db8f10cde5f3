import type { KubeClient, Reflector } from '@semblance/common/kube/index';
import type { Logger } from '@semblance/common/logging';
import type { GpuAgent } from '@semblance/crds/gen/gpuagents';
import type { RenderJob } from '@semblance/crds/gen/renderjobs';
import type { EventBus } from '@semblance/events/bus';
import { type JobStatus, jobEvent } from '@semblance/events/jobs';
import type { ObjectStore } from '@semblance/objects/store';
import type { Registry } from 'prom-client';
import { type Batches, createBatches } from '../batches/batches.ts';
import type { Metrics } from '../metrics.ts';
import { watchCrowd } from '../relay/crowd.ts';
import { createOutbox, type Outbox } from '../relay/outbox.ts';
import type { Database } from '../storage/database.ts';
import { createWatchHub, type WatchHub } from '../watch/watch-hub.ts';
import type { CallbackHosts } from '../webhooks/callback-hosts.ts';
import { type CallbackCheck, createCallbackCheck } from './callback-check.ts';
import { type Canceller, createCanceller } from './cancel.ts';
import { createJobView, type JobView } from './job-view.ts';
import type { RenderJobOrder } from './render-jobs.ts';
import { createRenderJobPayer } from './renderjob-payer.ts';
import { createRetractor } from './retract.ts';
import { createSettler, type SettledFacts, type SettlerOptions } from './settle.ts';
import { createSubmit, type SubmitDebts } from './submit.ts';
import { traceSettler } from './traces.ts';
import { createJobWatcher } from './watcher.ts';

export interface JobsOptions {
  readonly database: Database;
  readonly kube: KubeClient;
  readonly reflector: Reflector<RenderJob>;
  readonly namespace: string;
  readonly objects: ObjectStore;
  readonly events: EventBus;
  readonly metrics: Metrics;
  readonly logger: Logger;
  readonly registry: Registry;
  /** Date of charges. Default: the database's clock. */
  readonly now: (() => Date) | undefined;
  readonly sweepEveryMs: number | undefined;
  /** Resolves with whether the leading operator asks for texts of jobs. */
  readonly operatorReadsTexts: () => Promise<boolean>;
  readonly callbackHosts: CallbackHosts;
  /** Agents that a job may go to. */
  readonly agents: () => readonly GpuAgent[];
  /** Returns the slots that a RenderJob's attempt takes. Default: 1. */
  readonly slotsOf?: SettlerOptions['slotsOf'];
}

/** Jobs from their submit to their settlement. */
export interface Jobs {
  /** Submits a job whose callback may be resolved first. */
  readonly submit: Submit;
  /** Submits a job that came together with others, which wait for its answer: nothing is resolved. */
  readonly submitTogether: Submit;
  readonly batches: Batches;
  readonly callbackCheck: CallbackCheck;
  readonly canceller: Canceller;
  readonly view: JobView;
  readonly watchHub: WatchHub;
  /** Pays debts, follows RenderJobs and settles until aborted. */
  run(signal: AbortSignal): Promise<void>;
}

type Submit = ReturnType<typeof createSubmit>;
type Contexts = { renderjob: RenderJobOrder; event: undefined };

export function createJobs(options: JobsOptions): Jobs {
  const { database, kube, reflector, namespace, objects, events, metrics, logger, registry } = options;
  const { now, sweepEveryMs, slotsOf } = options;

  const outbox: Outbox<Contexts> = createOutbox<Contexts>({
    database,
    logger,
    lanes: {
      renderjob: {
        // While submits queue for the database, work that can wait is slowed down.
        concurrency: () => (submits.crowded() ? 1 : 16),
        handle: (task, order) => payRenderJob(task.jobId, order),
      },
      event: {
        concurrency: () => 128,
        handle: (task) => events.publish(jobEvent(task.jobId, task.status as JobStatus, task.createdAt)),
      },
    },
    onPaid: metrics.paid,
  });
  const owe = (jobId: string, status: string, id: bigint) => {
    outbox.handOver('event', { id, jobId, status, createdAt: new Date() });
    watchHub.nudge(jobId);
  };
  const onSettled = (facts: SettledFacts) => {
    metrics.settled(facts);
    owe(facts.jobId, facts.status, facts.eventTask);
  };
  const settler = traceSettler(
    createSettler({ database, objects, logger, now, onSettled, ...(slotsOf && { slotsOf }) }),
  );
  const common = { database, client: kube, reflector, settler, namespace, logger, sweepEveryMs };
  const canceller: Canceller = createCanceller({ ...common, onSettled });

  const retractor = createRetractor({ database, canceller, logger });
  const payRenderJob = createRenderJobPayer({
    ...{ database, kube, canceller, settler, namespace, logger },
    operatorReadsTexts: options.operatorReadsTexts,
  });

  const watcher = createJobWatcher({
    ...common,
    onBegun: ({ jobId, eventTask }) => owe(jobId, 'processing', eventTask),
  });
  const admission = {
    database,
    agents: options.agents,
    onOutcome: metrics.submitted,
    onUnknown: retractor.retract,
    onCommitted({ jobId, renderJobTask, eventTask, submission }: SubmitDebts) {
      const { accountId, capability, inputs, parameters, engineOptions } = submission;
      const createdAt = new Date();
      const order = { jobId, accountId, capability, inputs, parameters, engineOptions };
      outbox.handOver('renderjob', { id: renderJobTask, jobId, status: null, createdAt }, order);
      outbox.handOver('event', { id: eventTask, jobId, status: 'queued', createdAt });
    },
  };
  const submits = watchCrowd(createSubmit({ ...admission, webhooks: true }), { most: 4, lingerMs: 100 });
  // Outside of the crowd, since a name that takes long to resolve is no work for the database.
  const callbackCheck = createCallbackCheck(database.sql, options.callbackHosts);
  const after =
    (check: CallbackCheck['text']): Submit =>
    async (submission) => {
      await check(submission);
      return submits.run(submission);
    };
  const view = createJobView({ objects });
  const watchHub = createWatchHub({ database, view, events, reflector, namespace, logger, registry });

  return {
    batches: createBatches({ ...admission, callbackCheck }),
    submit: after(callbackCheck.resolved),
    submitTogether: after(callbackCheck.text),
    callbackCheck,
    canceller,
    view,
    watchHub,
    async run(signal) {
      await Promise.all([outbox, canceller, retractor, watcher, watchHub].map((each) => each.run(signal)));
    },
  };
}
