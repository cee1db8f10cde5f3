import type { EngineSet } from '../engines/engine-set.ts';
import type { Live } from '../live/live.ts';
import { engineStatement } from './engine-statement.ts';
import type { AgentStatement } from './registration.ts';

type WorkStatement = Pick<
  AgentStatement,
  'slots' | 'draining' | 'engines' | 'unavailable' | 'unavailableNames' | 'live'
>;

/** Returns the part of the statement about the work that the agent takes; none while it ends. */
export function workStatement({
  engines,
  live,
  ending,
}: {
  readonly engines: EngineSet;
  readonly live: Pick<Live, 'statement' | 'unavailable'>;
  readonly ending: boolean;
}): WorkStatement {
  return {
    slots: ending ? 0 : engines.capacity,
    draining: ending,
    ...engineStatement(engines, live.unavailable),
    live: ending ? live.statement.map((each) => ({ ...each, slots: 0, warming: false })) : live.statement,
  };
}
