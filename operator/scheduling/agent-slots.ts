import type { Reflector } from '@semblance/common/kube/index';
import type { RenderJob } from '@semblance/crds/gen/renderjobs';
import type { Fleet } from '../agents/fleet.ts';
import type { AgentView } from '../agents/view.ts';
import { isTerminal } from '../renderjob/attempt-state.ts';
import type { FactStore } from '../renderjob/facts.ts';
import { attemptOf } from '../renderjob/status.ts';
import type { AssumedPlacements } from './assumed.ts';
import type { ScheduledAgent } from './scheduled-agent.ts';

/** Interval at which all agents are read anew, whatever was reported, in ms. */
const LOOK_MS = 1_000;

export interface AgentSlotsOptions {
  readonly jobs: Reflector<RenderJob>;
  readonly fleet: Fleet;
  readonly facts: FactStore;
  readonly assumed: AssumedPlacements;
}

/** What work takes on an agent; memory in MiB. */
interface Taken {
  readonly slots: number;
  readonly memoryMib: number;
  /** On its cards, beside what its engines hold. */
  readonly vramMib: number;
}

/** Counts the slots and the memory that are taken on each agent. */
export interface AgentSlots {
  /** Must be called when the slots or the work of the agent may have changed. */
  changed(agent: string): void;
  /** Counts the changed agents anew, and all of them once per second. Returns all agents. */
  look(): readonly ScheduledAgent[];
  /** Returns the slots of a render on the agent; 1 when it is unknown. */
  costOn(agent: string, capability: string): number;
  /** Returns what is taken, with assumed placements. */
  takenOn(view: AgentView): Taken;
}

export function createAgentSlots({ jobs, fleet, facts, assumed }: AgentSlotsOptions): AgentSlots {
  const agents = new Map<string, ScheduledAgent>();
  const changed = new Set<string>();
  let lookedAt = Number.NEGATIVE_INFINITY;

  function takenOn(view: AgentView): Taken {
    const { name, incarnation, costs, memory, vram } = view;
    let slots = 0;
    let memoryMib = 0;
    let vramMib = 0;
    const bound = new Set<string>();
    const take = (capability: string) => {
      slots += costs.get(capability) ?? 1;
      memoryMib += memory?.get(capability) ?? 0;
      vramMib += vram?.get(capability) ?? 0;
    };
    for (const job of jobs.byIndex('agent', name)) {
      const { uid = '' } = job.metadata;
      const attempt = attemptOf(job);
      bound.add(`${uid}/${attempt}`);
      if (job.status?.agentIncarnation !== incarnation) continue;
      const { report, stopped } = facts.get(uid, attempt, name, incarnation);
      // An ended attempt has freed its slots, even if the resource does not say so yet.
      if (stopped || (report && isTerminal(report.state))) continue;
      take(job.spec.capability);
    }
    for (const placed of assumed.on(name)) {
      if (placed.incarnation === incarnation) take(placed.job.capability);
    }
    // Work that no resource asks for holds its slots until it is stopped.
    for (const { uid, attempt } of facts.runningOn(name, incarnation)) {
      if (!bound.has(`${uid}/${attempt}`)) slots++;
    }
    return { slots, memoryMib, vramMib };
  }

  function counted(view: AgentView): ScheduledAgent {
    const { slots: used, memoryMib: memoryUsed, vramMib: vramUsed } = takenOn(view);
    return {
      ...view,
      used,
      memoryUsed,
      vramUsed,
      get paused() {
        return fleet.isPaused(view.name);
      },
    };
  }

  return {
    changed: (agent) => void changed.add(agent),
    look() {
      if (performance.now() - lookedAt > LOOK_MS) {
        lookedAt = performance.now();
        agents.clear();
        for (const view of fleet.views()) agents.set(view.name, counted(view));
      } else {
        for (const name of changed) {
          const view = fleet.view(name);
          if (view) agents.set(name, counted(view));
          else agents.delete(name);
        }
      }
      changed.clear();
      return [...agents.values()];
    },
    costOn: (agent, capability) => agents.get(agent)?.costs.get(capability) ?? 1,
    takenOn,
  };
}
