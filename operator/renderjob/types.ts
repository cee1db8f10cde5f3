import { AGENT_CLEANUP_FINALIZER } from '@semblance/common/finalizers';
import type { RenderJobStatus } from '@semblance/crds/gen/renderjobs';
import type { AttemptStatus } from '@semblance/proto/semblance/agent/v1/agent';

/** Finalizer that keeps a RenderJob while an agent may still work on it. */
export const FINALIZER = AGENT_CLEANUP_FINALIZER;

export type Phase = NonNullable<RenderJobStatus['phase']>;

/** What this process knows of one attempt beyond the resource. Empty after a restart, then refilled. */
export interface AttemptFacts {
  /** Last report of the agent on the attempt. */
  readonly report?: AttemptStatus;
  readonly startAccepted?: boolean;
  readonly startRefused?: StartRefusal;
  /** The agent was told that it may forget the attempt. */
  readonly acknowledged?: boolean;
  /** When the attempt was first reported, in Unix milliseconds by the operator's clock. */
  readonly heardAt?: number;
  /** The agent answered that the attempt has ended and can never begin. */
  readonly stopped?: boolean;
}

export interface StartRefusal {
  /** `busy`: no free slot. `refused`: draining, or the attempt is outdated. `unable`: no engine, or malformed. */
  readonly kind: 'busy' | 'refused' | 'unable';
  readonly message: string;
}

/**
 * What is known of the process that an attempt is bound to.
 * - `connected`: its stream is open, so it does not hold what it does not report;
 * - `unreachable`: no word from it, and no proof that it ended;
 * - `replaced`: another incarnation of the same name has registered;
 * - `lost`: its Lease lapsed or was released. Work of a replaced or lost process has ended.
 */
export type AgentFate = 'connected' | 'unreachable' | 'replaced' | 'lost';

/** Why a job waits, for people to read. */
export interface WaitingReason {
  readonly reason: string;
  readonly message: string;
  readonly position: number | undefined;
  /** Number of jobs that wait for the same agents, this one included. */
  readonly total?: number | undefined;
}

export interface Placement {
  readonly agent: string;
  readonly incarnation: string;
}

export interface EventNote {
  readonly type: 'Normal' | 'Warning';
  readonly reason: string;
  readonly action: string;
  readonly note: string;
}

export type Action =
  /** Writes the status, after the finalizer when `hold` is set. */
  | {
      readonly type: 'status';
      readonly status: RenderJobStatus;
      readonly hold?: boolean;
      readonly event?: EventNote;
    }
  | { readonly type: 'start' }
  | { readonly type: 'stop'; readonly reason: string }
  /** Lets the agent forget the attempt. */
  | { readonly type: 'acknowledge' }
  /** Deletes what losing attempts may have stored. `must` is false if it is better to go on than to wait. */
  | { readonly type: 'sweep'; readonly attempts: readonly number[]; readonly must: boolean }
  /** Forgets the facts of its attempts; the control plane removes the finalizer with its own. */
  | { readonly type: 'forget' }
  /** Removes the finalizer. */
  | { readonly type: 'release'; readonly event?: EventNote }
  | { readonly type: 'delete' };

export interface Decision {
  readonly actions: readonly Action[];
  /** Delay until the next look if nothing happens, in ms. */
  readonly requeueAfterMs?: number;
}
