import { gauge } from '@semblance/common/kube/index';
import type { Registry } from 'prom-client';
import type { AgentView } from './view.ts';

/** Metrics of each agent's slots. */
export interface AgentMetrics {
  /** @param liveUsed live sessions by capability */
  show(view: AgentView, used: number, liveUsed: ReadonlyMap<string, number>): void;
  forget(agent: string): void;
}

export function createAgentMetrics(registry: Registry): AgentMetrics {
  const labelNames = ['agent'] as const;
  const slots = gauge(registry, {
    name: 'semblance_agent_slots',
    help: 'Slots of an agent that takes work; 0 while it does not.',
    labelNames,
  });
  const slotsUsed = gauge(registry, {
    name: 'semblance_agent_slots_used',
    help: 'Slots taken by work bound to the agent.',
    labelNames,
  });

  const liveLabels = ['agent', 'capability'] as const;
  const liveSlots = gauge(registry, {
    name: 'semblance_agent_live_slots',
    help: 'Live sessions that an agent which takes any can hold at once; 0 while it takes none.',
    labelNames: liveLabels,
  });
  const liveSlotsUsed = gauge(registry, {
    name: 'semblance_agent_live_slots_used',
    help: 'Live sessions bound to the agent.',
    labelNames: liveLabels,
  });
  /** Capabilities for which an agent has metrics. */
  const shown = new Map<string, Set<string>>();

  function showLive(name: string, used: ReadonlyMap<string, number>, slotsOf: (of: string) => number): void {
    const before = shown.get(name) ?? new Set();
    for (const capability of before) {
      if (used.has(capability)) continue;
      liveSlots.remove({ agent: name, capability });
      liveSlotsUsed.remove({ agent: name, capability });
    }
    for (const [capability, count] of used) {
      liveSlots.set({ agent: name, capability }, slotsOf(capability));
      liveSlotsUsed.set({ agent: name, capability }, count);
    }
    if (used.size > 0) shown.set(name, new Set(used.keys()));
    else shown.delete(name);
  }

  return {
    show({ name, readiness, slots: all, live }, used, liveUsed) {
      slots.set({ agent: name }, readiness.ready ? all : 0);
      slotsUsed.set({ agent: name }, used);
      showLive(name, liveUsed, (of) => (readiness.ready ? (live.get(of)?.slots ?? 0) : 0));
    },
    forget(name) {
      slots.remove({ agent: name });
      slotsUsed.remove({ agent: name });
      showLive(name, new Map(), () => 0);
    },
  };
}
