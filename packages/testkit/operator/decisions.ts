import { SETTLEMENT_FINALIZER } from '@semblance/common/finalizers';
import type { RenderJob, RenderJobStatus } from '@semblance/crds/gen/renderjobs';
import type { JobSnapshot } from '@semblance/operator/renderjob/job-snapshot';
import { reconcile } from '@semblance/operator/renderjob/reconcile';
import { FINALIZER } from '@semblance/operator/renderjob/types';
import { AttemptState, type AttemptStatus } from '@semblance/proto/semblance/agent/v1/agent';

export const NOW = Date.parse('2026-01-01T00:10:00.000Z');
export const ago = (seconds: number) => new Date(NOW - seconds * 1000).toISOString();

export function jobOf(
  status: RenderJobStatus | undefined,
  overrides: { spec?: Partial<RenderJob['spec']>; metadata?: Partial<RenderJob['metadata']> } = {},
): RenderJob {
  return {
    apiVersion: 'semblance.dev/v1alpha1',
    kind: 'RenderJob',
    metadata: {
      name: 'job',
      namespace: 'ns',
      uid: 'u1',
      generation: 3,
      creationTimestamp: ago(60),
      ...(status?.agent ? { finalizers: [FINALIZER] } : {}),
      ...overrides.metadata,
    },
    spec: {
      capability: 'face-swap-image',
      inputs: [],
      backoffLimit: 2,
      activeDeadlineSeconds: 100,
      ...overrides.spec,
    },
    status,
  };
}

/** Status of a bound attempt. For an attempt that is only assigned, no begin has been written. */
export const bound = (phase: RenderJobStatus['phase'], more: RenderJobStatus = {}): RenderJobStatus => ({
  phase,
  attempt: 2,
  agent: 'one',
  agentIncarnation: 'i1',
  ...(phase === 'Assigned' ? {} : { startTime: ago(5) }),
  ...more,
});

export function report(state: AttemptState, more: Partial<AttemptStatus> = {}): AttemptStatus {
  return {
    ref: { jobUid: 'u1', attempt: 2 },
    state,
    progress: 0.5,
    stage: 'swap',
    startedAtMs: BigInt(NOW - 5_000),
    ...more,
  };
}

export const {
  ATTEMPT_STATE_RUNNING: RUNNING,
  ATTEMPT_STATE_SUCCEEDED: SUCCEEDED,
  ATTEMPT_STATE_INTERRUPTED: INTERRUPTED,
  ATTEMPT_STATE_STOPPED: STOPPED,
  ATTEMPT_STATE_FAILED: FAILED,
} = AttemptState;
export const output = {
  key: 'out/u1/2.jpg',
  contentType: 'image/jpeg',
  sizeBytes: 10n,
  sha256Hex: '',
  unit: 'image',
  milliUnits: 1000n,
  stages: [],
  engine: 'e/1',
};

/** Returns the decisions in short form: action types, and for a status its phase and the reason of its condition. */
export function decide(job: RenderJob, more: Partial<JobSnapshot> = {}) {
  const snapshot = { job, now: NOW, facts: {}, fate: 'connected', progressDue: true, ...more } as const;
  const { actions, requeueAfterMs } = reconcile(snapshot);
  const short = actions.map((action) => {
    if (action.type !== 'status') return action.type;
    const ready = action.status.conditions?.find(({ type }) => type === 'Ready');
    return `${action.status.phase}/${ready?.reason}`;
  });
  const write = actions.find((action) => action.type === 'status');
  return { short, status: write?.type === 'status' ? write.status : undefined, actions, requeueAfterMs };
}

export const placement = { agent: 'one', incarnation: 'i1' };
export const deleted = { metadata: { deletionTimestamp: ago(1), finalizers: [FINALIZER] } };
/** Metadata of an API job: both services hold a finalizer from its creation on. */
export const keptByBoth = { metadata: { finalizers: [SETTLEMENT_FINALIZER, FINALIZER] } };
export const suspended = { spec: { suspend: true } };
