import { randomBytes } from 'node:crypto';
import { EVENT_RESOURCE, type KubeClient, microTime, NAMESPACE_RESOURCE } from '@semblance/common/kube/index';
import { RENDERJOB_RESOURCE, type RenderJob } from '@semblance/crds/gen/renderjobs';
import type { JobSnapshot } from '@semblance/operator/renderjob/job-snapshot';
import { outputKey } from '@semblance/operator/renderjob/outputs';
import { reconcile } from '@semblance/operator/renderjob/reconcile';
import type { Action } from '@semblance/operator/renderjob/types';
import { createJobWriter } from '@semblance/operator/renderjob/writer';
import { AttemptState, type AttemptStatus } from '@semblance/proto/semblance/agent/v1/agent';
import { inTurn, jobOf } from './setting.ts';

const PLACEMENT = { agent: 'agent-0000', incarnation: '0123456789ab' };

/**
 * Measures the API server with a client that does nothing but write. The writes of a job's life follow each other,
 * for some jobs at once. Bodies and client are those of the operator. There is no watch, no agent and no queue.
 * @param eventsPerJob as many as the operator wrote
 * @returns jobs per second
 */
export async function bareWrites(
  client: KubeClient,
  options: {
    readonly namespace: string;
    readonly count: number;
    readonly atOnce: number;
    readonly eventsPerJob: number;
  },
): Promise<number> {
  const { namespace, count, atOnce, eventsPerJob } = options;
  await client.apply(NAMESPACE_RESOURCE, { metadata: { name: namespace } });
  const writer = createJobWriter({ client, jobs: { note() {} } });
  const { signal } = new AbortController();
  let events = 0;

  async function write(action: Action, job: RenderJob): Promise<RenderJob> {
    if (action.type === 'release') await writer.release(job, signal);
    if (action.type !== 'status') return job;
    const written = await writer.writeStatus(job, action.status, signal);
    events += eventsPerJob / 2;
    for (; action.event && events >= 1; events--) await writeEvent(client, written, action.event.note);
    return written;
  }

  const one = async (n: number) => {
    let job = await client.create(RENDERJOB_RESOURCE, jobOf(namespace, `bare-${n}`, n));
    for (const step of [bound, succeeded, released]) {
      for (const action of reconcile(step(job)).actions) job = await write(action, job);
    }
  };
  const began = performance.now();
  await inTurn(count, atOnce, one);
  return (count * 1_000) / (performance.now() - began);
}

const common = { facts: {}, fate: 'connected', progressDue: true } as const;
const bound = (job: RenderJob): JobSnapshot => ({ ...common, job, now: Date.now(), placement: PLACEMENT });
const released = (job: RenderJob): JobSnapshot => ({ ...common, job, now: Date.now() });

function succeeded(job: RenderJob): JobSnapshot {
  const report: AttemptStatus = {
    ref: { jobUid: job.metadata.uid ?? '', attempt: 1 },
    state: AttemptState.ATTEMPT_STATE_SUCCEEDED,
    progress: 1,
    stage: '',
    startedAtMs: BigInt(Date.now()),
    output: {
      key: outputKey(job, 1, 'image/jpeg') ?? '',
      contentType: 'image/jpeg',
      sizeBytes: 1234n,
      sha256Hex: 'ab'.repeat(32),
      unit: 'image',
      milliUnits: 1000n,
      engine: 'scripted/1',
      stages: [{ name: 'swap', milliseconds: 12.5, engine: '' }],
    },
  };
  return { ...common, job, now: Date.now(), facts: { report } };
}

/** Writes an event like the operator's event recorder. */
function writeEvent(client: KubeClient, job: RenderJob, note: string): Promise<unknown> {
  const { name = '', namespace = '', uid, resourceVersion } = job.metadata;
  return client.create(EVENT_RESOURCE, {
    metadata: { name: `${name}.${randomBytes(8).toString('hex')}`, namespace },
    eventTime: microTime(),
    type: 'Normal',
    reason: 'Assigned',
    action: 'Bind',
    note,
    regarding: { apiVersion: job.apiVersion, kind: job.kind, namespace, name, uid, resourceVersion },
    reportingController: 'semblance.dev/operator',
    reportingInstance: 'bench',
  });
}
