import { gauge } from '@semblance/common/kube/index';
import type { Registry } from 'prom-client';
import type { Plan, PoolSnapshot } from './types.ts';
import { isReady } from './types.ts';

export interface PoolMetrics {
  show(snapshot: PoolSnapshot, plan: Plan): void;
  forget(pool: string): void;
}

const RENDER = 'render';

export function createPoolMetrics(registry: Registry): PoolMetrics {
  const of = (what: string, help: string) =>
    gauge(registry, { name: `semblance_pool_${what}`, help, labelNames: ['pool'] as const });
  const byKind = (what: string, help: string) =>
    gauge(registry, { name: `semblance_pool_${what}`, help, labelNames: ['pool', 'kind'] as const });
  const desired = of('desired', 'Agents that the pool is to have.');
  const replicas = of('replicas', 'Pods of the pool that are there and not ending.');
  const ready = of('ready', 'Agents of the pool that take work.');
  const slots = byKind(
    'slots',
    'Slots of the agents of the pool that take work: renders, or live sessions by capability.',
  );
  const used = byKind('slots_used', 'Slots of the pool that are taken.');
  const waiting = byKind('waiting', 'Slots that the work which waits for the pool would take.');
  /** Kinds that each pool shows. */
  const shown = new Map<string, Set<string>>();

  function forget(pool: string): void {
    for (const each of [desired, replicas, ready]) each.remove({ pool });
    for (const kind of shown.get(pool) ?? [])
      for (const each of [slots, used, waiting]) each.remove({ pool, kind });
    shown.delete(pool);
  }

  return {
    show({ pool: { metadata }, demand, profile }, plan) {
      const pool = metadata.name ?? '';
      desired.set({ pool }, plan.desired);
      replicas.set({ pool }, plan.present.length);
      ready.set({ pool }, plan.present.filter(isReady).length);
      const totals = new Map([[RENDER, { slots: 0, used: 0, waiting: 0 }]]);
      const at = (kind: string) => {
        const total = totals.get(kind) ?? { slots: 0, used: 0, waiting: 0 };
        totals.set(kind, total);
        return total;
      };
      for (const kind of profile.live.keys()) at(kind);
      for (const pod of plan.present) {
        at(RENDER).used += pod.agent?.used ?? 0;
        if (isReady(pod)) at(RENDER).slots += pod.agent?.slots ?? 0;
        for (const [kind, live] of pod.agent?.live ?? []) {
          at(kind).used += live.used;
          if (isReady(pod)) at(kind).slots += live.slots;
        }
      }
      for (const [capability, count] of demand.jobs)
        at(RENDER).waiting += count * (profile.costs.get(capability) ?? 1);
      for (const [capability, count] of demand.opens) at(capability).waiting += count;
      for (const kind of shown.get(pool) ?? [])
        if (!totals.has(kind)) for (const each of [slots, used, waiting]) each.remove({ pool, kind });
      for (const [kind, total] of totals) {
        slots.set({ pool, kind }, total.slots);
        used.set({ pool, kind }, total.used);
        waiting.set({ pool, kind }, total.waiting);
      }
      shown.set(pool, new Set(totals.keys()));
    },
    forget,
  };
}
