import { AttemptState } from '@semblance/proto/semblance/agent/v1/agent';

/** Returns whether the attempt has ended. An attempt that has ended never runs again. */
export function isTerminal(state: AttemptState): boolean {
  return state > AttemptState.ATTEMPT_STATE_RUNNING;
}
