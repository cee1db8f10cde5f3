import type { RenderJob } from '@semblance/crds/gen/renderjobs';
import type { AgentFate, AttemptFacts, Placement, WaitingReason } from './types.ts';

export interface JobSnapshot {
  readonly job: RenderJob;
  /** Unix milliseconds. */
  readonly now: number;
  /** Facts of the attempt in the status. */
  readonly facts: AttemptFacts;
  /** Fate of the agent in the status. */
  readonly fate: AgentFate;
  /** Disruption that ended the process in the status. Set only if the process is lost or replaced. */
  readonly ended?: string | undefined;
  /** Agent that the scheduler gives to a waiting job. */
  readonly placement?: Placement;
  /** Set when it is time to write why the job waits. */
  readonly waiting?: WaitingReason;
  /** False while the last write of progress is too recent. */
  readonly progressDue: boolean;
}
