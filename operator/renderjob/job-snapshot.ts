import type { RenderJob } from '@semblance/crds/gen/renderjobs';
import type { AgentFate, AttemptFacts, Placement, WaitingReason } from './types.ts';

export interface JobSnapshot {
  readonly job: RenderJob;
  /** Unix milliseconds. */
  readonly now: number;
  /** Of the attempt in the status. */
  readonly facts: AttemptFacts;
  /** Of the agent in the status. */
  readonly fate: AgentFate;
  /**
   * States what outside it ended the process in the status, where that is lost or replaced and such a thing is known.
   */
  readonly ended?: string | undefined;
  /** The agent the scheduler gives a waiting job. */
  readonly placement?: Placement;
  /** Set when it is time to say why the job waits. */
  readonly waiting?: WaitingReason;
  /** False while the last write of progress is too recent. */
  readonly progressDue: boolean;
}
