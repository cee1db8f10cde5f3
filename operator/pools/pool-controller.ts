import type { Handlers } from '@semblance/common/kube/index';
import type { AgentPool } from '@semblance/crds/gen/agentpools';
import type { PoolWord } from '../scheduling/reasons.ts';
import type { Pod } from './pod.ts';
import type { RefusedOpens } from './refused-opens.ts';

export interface PoolController {
  readonly poolHandlers: Handlers<AgentPool>;
  readonly podHandlers: Handlers<Pod>;
  /** Is told of live sessions that found no slot, and of those that did. */
  readonly opens: Pick<RefusedOpens, 'refused' | 'opened'>;
  /** Must be called when the agent has changed. */
  touchAgent(agent: string): void;
  worked(agent: string): void;
  mayGrow(capability: string): boolean;
  readonly wordOf: PoolWord;
  run(signal: AbortSignal): Promise<void>;
}
