import { AGENT_CLEANUP_FINALIZER } from '@semblance/common/finalizers';
import type { RenderJobStatus } from '@semblance/crds/gen/renderjobs';
import type { AttemptStatus } from '@semblance/proto/semblance/agent/v1/agent';

/** Keeps a RenderJob from vanishing while an agent may still work on it. */
export const FINALIZER = AGENT_CLEANUP_FINALIZER;

export type Phase = NonNullable<RenderJobStatus['phase']>;

/** Holds what this process knows of one attempt beyond what the resource says. Empty after a restart, and refilled. */
export interface AttemptFacts {
  /** Last word of the agent on it. */
  readonly report?: AttemptStatus;
  /** The agent took it on. */
  readonly startAccepted?: boolean;
  /** The agent would not take it on. */
  readonly startRefused?: StartRefusal;
  /** The agent was told that it may forget the attempt. */
  readonly acknowledged?: boolean;
  /** States when it was first heard to run, in Unix milliseconds by our clock. */
  readonly heardAt?: number;
  /** The agent answered that it has ended and cannot begin any more. */
  readonly stopped?: boolean;
}

export interface StartRefusal {
  /** `busy`: no free slot. `refused`: draining, or the attempt is outdated. `unable`: no engine, or malformed. */
  readonly kind: 'busy' | 'refused' | 'unable';
  readonly message: string;
}

/**
 * Holds what is known of the process an attempt is bound to.
 * - `connected`: its stream is open, so that what it does not report it does not hold;
 * - `unreachable`: no word from it, and no proof that it ended;
 * - `replaced`: another incarnation of the same name has registered;
 * - `lost`: its Lease lapsed or was released. Work of a replaced or lost process has ended.
 */
export type AgentFate = 'connected' | 'unreachable' | 'replaced' | 'lost';

/** Why a job waits, for a person. */
export interface WaitingReason {
  readonly reason: string;
  readonly message: string;
  readonly position: number | undefined;
  /** How many wait for the same agents, this one included. */
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
  /** Write the status, with the finalizer first when `hold` is set. */
  | {
      readonly type: 'status';
      readonly status: RenderJobStatus;
      readonly hold?: boolean;
      readonly event?: EventNote;
    }
  | { readonly type: 'start' }
  | { readonly type: 'stop'; readonly reason: string }
  /** The agent may forget the attempt. */
  | { readonly type: 'acknowledge' }
  /** Delete what attempts that lost may have stored. `must` is false when it is better to go on than to wait. */
  | { readonly type: 'sweep'; readonly attempts: readonly number[]; readonly must: boolean }
  /** Nothing has to be remembered of its attempts any more; the control plane takes the finalizer off with its own. */
  | { readonly type: 'forget' }
  /** Remove the finalizer. */
  | { readonly type: 'release'; readonly event?: EventNote }
  | { readonly type: 'delete' };

export interface Decision {
  readonly actions: readonly Action[];
  /** Look again after this long even if nothing happens. */
  readonly requeueAfterMs?: number;
}
