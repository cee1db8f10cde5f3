import { explainWaiting, makeOutlook, mayGrow, type Outlook } from './outlook.ts';
import type { PoolController } from './pool-controller.ts';
import type { Plan, PoolSnapshot } from './types.ts';

/** Present outlook of each pool. */
export interface Outlooks extends Pick<PoolController, 'mayGrow' | 'wordOf'> {
  show(snapshot: PoolSnapshot, plan: Plan): void;
  forget(pool: string): void;
  pools(): readonly string[];
}

/** @param onChanged called when any outlook has changed */
export function createOutlooks(onChanged: () => void): Outlooks {
  const outlooks = new Map<string, Outlook>();
  const sign = (of: Outlook | undefined) =>
    JSON.stringify(of && { ...of, capabilities: [...of.capabilities] });
  return {
    show(snapshot, plan) {
      const outlook = makeOutlook(snapshot, plan);
      const before = outlooks.get(outlook.pool);
      outlooks.set(outlook.pool, outlook);
      if (sign(before) !== sign(outlook)) onChanged();
    },
    forget(pool) {
      if (outlooks.delete(pool)) onChanged();
    },
    pools: () => [...outlooks.keys()],
    mayGrow: (capability) => mayGrow(outlooks.values(), capability),
    wordOf: (capability, others) => explainWaiting(outlooks.values(), capability, others),
  };
}
