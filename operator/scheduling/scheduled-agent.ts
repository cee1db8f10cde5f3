import type { AgentView } from '../agents/view.ts';

/** An agent as the scheduler counts on it. */
export interface ScheduledAgent extends Omit<AgentView, 'live' | 'address'> {
  /** Slots taken by work bound to the agent. */
  readonly used: number;
  /** Most memory that this work takes, in MiB. Default 0. */
  readonly memoryUsed?: number;
  /** Most memory that this work takes on the cards, in MiB. Default 0. */
  readonly vramUsed?: number;
  /** The agent refused work a moment ago; nothing new before the pause is over. */
  readonly paused?: boolean;
}
