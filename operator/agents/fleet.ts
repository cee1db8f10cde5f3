import { certificateOf } from '@semblance/common/agent-certificate';
import { afterAbort } from '@semblance/common/async/abort';
import type { Tls } from '@semblance/common/grpc/tls/tls';
import type { Reflector } from '@semblance/common/kube/index';
import type { Logger } from '@semblance/common/logging';
import type { GpuAgent } from '@semblance/crds/gen/gpuagents';
import type { AttemptStatus } from '@semblance/proto/semblance/agent/v1/agent';
import type { AgentFate } from '../renderjob/types.ts';
import type { DisruptionWatch } from './disruption-watch.ts';
import type { LeaseTracker } from './lease-tracker.ts';
import { type AgentLink, createAgentLink } from './link.ts';
import { type AgentView, type ViewOptions, viewOf } from './view.ts';

/** Interval at which Leases are judged anew, in ms. A Lease that lapses makes no event. */
const TICK_MS = 250;

export interface FleetEvents {
  /** Called on a change that matters to scheduling or the agent's jobs: registration, readiness, connection, fate. */
  onChanged(agent: string): void;
  onSnapshot(agent: string, incarnation: string, attempts: readonly AttemptStatus[]): void;
  onReport(agent: string, incarnation: string, attempt: AttemptStatus): void;
}

export interface FleetOptions {
  readonly agents: Pick<Reflector<GpuAgent>, 'get' | 'list'>;
  readonly leases: Pick<LeaseTracker, 'stateOf'>;
  readonly disruptions: Pick<DisruptionWatch, 'of' | 'endOf'>;
  /** Returns why the address that the agent states is not its own; undefined: it is, or nobody can tell. */
  readonly foreignAddress: (agent: GpuAgent) => string | undefined;
  readonly internalToken?: string | undefined;
  readonly tls?: Tls | undefined;
  readonly logger: Logger;
  readonly events: FleetEvents;
}

/** The agents as this process sees them, with a connection to each registered agent. */
export interface Fleet {
  run(signal: AbortSignal): Promise<void>;
  /** Takes an agent's resource into account; must be called on every change of it. */
  touch(agent: string): void;
  views(): AgentView[];
  /** Returns undefined when there is no such agent. */
  view(agent: string): AgentView | undefined;
  viewOf(agent: GpuAgent): AgentView;
  fateOf(agent: string, incarnation: string): AgentFate;
  /** Returns the disruption that ended a lost or replaced process; undefined when none is known. */
  endOf(agent: string, incarnation: string): string | undefined;
  /** Returns the connection to exactly that process, if there is one. */
  linkTo(agent: string, incarnation: string): AgentLink | undefined;
  /** Gives no more work to an agent for `ms` milliseconds, because it refused some. */
  pause(agent: string, ms: number): void;
  isPaused(agent: string): boolean;
}

/** A view of an agent, and the inputs it was computed from. */
interface Looked {
  readonly from: ViewOptions;
  readonly view: AgentView;
}

interface Connection {
  readonly link: AgentLink;
  readonly stop: AbortController;
  readonly done: Promise<void>;
}

export function createFleet(options: FleetOptions): Fleet {
  const { agents, leases, logger, events } = options;
  const connections = new Map<string, Connection>();
  const paused = new Map<string, number>();
  /** Agents that are not called, because their addresses are not their own. */
  const foreign = new Set<string>();
  /** Cache that makes a look at an unchanged agent nearly free; nearly every agent is unchanged. */
  const looked = new Map<string, Looked>();
  /** Last report of each agent, so that only changes are reported. */
  const lastReports = new Map<string, { view: AgentView; readonly sign: string }>();
  let running: AbortSignal | undefined;

  function connect(agent: GpuAgent, signal: AbortSignal): void {
    const name = agent.metadata.name ?? '';
    const { incarnation, address } = agent.status ?? {};
    const { link } = connections.get(name) ?? {};
    const isForeign = options.foreignAddress(agent) !== undefined;
    if (isForeign) foreign.add(name);
    else foreign.delete(name);
    if (!isForeign && link?.incarnation === incarnation && link?.address === address) return;
    disconnect(name);
    if (!incarnation || !address || isForeign) return;
    const stop = new AbortController();
    const made = createAgentLink({
      agent: name,
      incarnation,
      address,
      certificate: certificateOf(agent),
      token: options.internalToken,
      tls: options.tls,
      logger,
      onSnapshot: (attempts) => {
        logger.info({ agent: name, incarnation, attempts: attempts.length }, 'connected to the agent');
        events.onSnapshot(name, incarnation, attempts);
        judge(name);
      },
      onReport: (attempt) => events.onReport(name, incarnation, attempt),
      onDisconnected: () => {
        if (stop.signal.aborted || signal.aborted) return;
        logger.warn({ agent: name, incarnation, reason: made.fault }, 'lost the connection to the agent');
        judge(name);
      },
    });
    const done = made.run(AbortSignal.any([signal, stop.signal]));
    connections.set(name, { link: made, stop, done });
  }

  /** Drops an agent that is gone. Another of its name starts afresh. */
  function forget(name: string): void {
    disconnect(name);
    foreign.delete(name);
    paused.delete(name);
    looked.delete(name);
  }

  function disconnect(name: string): void {
    connections.get(name)?.stop.abort(new Error('another process of the agent, or none'));
    connections.delete(name);
  }

  /** Calls `onChanged` when the agent's view or fate has changed. */
  function judge(name: string, agent = agents.get(name)): void {
    if (!agent) {
      if (lastReports.delete(name)) events.onChanged(name);
      return;
    }
    const view = look(agent);
    const before = lastReports.get(name);
    // The same inputs also give the same fate.
    if (before?.view === view) return;
    const sign = signOf(view, agent.metadata.uid, fateOf(name, view.incarnation));
    lastReports.set(name, { view, sign });
    if (before?.sign !== sign) events.onChanged(name);
  }

  function look(agent: GpuAgent): AgentView {
    const name = agent.metadata.name ?? '';
    const { link } = connections.get(name) ?? {};
    const incarnation = agent.status?.incarnation ?? '';
    const from: ViewOptions = {
      agent,
      lease: leases.stateOf(name, incarnation),
      connected: link?.incarnation === incarnation && link.connected,
      fault: link?.fault,
      foreign: options.foreignAddress(agent),
      disruption: options.disruptions.of(agent),
    };
    const before = looked.get(name);
    if (before && isSame(before.from, from)) return before.view;
    const view = viewOf(from);
    looked.set(name, { from, view });
    return view;
  }

  function fateOf(name: string, incarnation: string): AgentFate {
    const registered = agents.get(name)?.status?.incarnation;
    if (registered && registered !== incarnation) return 'replaced';
    if (leases.stateOf(name, incarnation) === 'lost') return 'lost';
    const { link } = connections.get(name) ?? {};
    return link?.incarnation === incarnation && link.connected ? 'connected' : 'unreachable';
  }

  return {
    async run(signal) {
      running = signal;
      for (const agent of agents.list()) connect(agent, signal);
      const ticking = setInterval(() => {
        for (const agent of agents.list()) {
          const { name = '' } = agent.metadata;
          if (foreign.has(name)) connect(agent, signal);
          judge(name, agent);
        }
      }, TICK_MS);
      await afterAbort(signal);
      clearInterval(ticking);
      const all = [...connections.values()];
      for (const name of [...connections.keys()]) disconnect(name);
      await Promise.all(all.map(({ done }) => done));
    },
    touch(name) {
      if (!running || running.aborted) return;
      const agent = agents.get(name);
      if (agent) connect(agent, running);
      else forget(name);
      judge(name);
    },
    views: () => agents.list().map(look),
    view(name) {
      const agent = agents.get(name);
      return agent && look(agent);
    },
    viewOf: look,
    fateOf,
    endOf: options.disruptions.endOf,
    linkTo(name, incarnation) {
      const { link } = connections.get(name) ?? {};
      return link?.incarnation === incarnation ? link : undefined;
    },
    pause(name, ms) {
      if (!agents.get(name)) return;
      paused.set(name, performance.now() + ms);
      setTimeout(() => events.onChanged(name), ms + 1).unref();
    },
    isPaused(name) {
      const until = paused.get(name);
      if (until === undefined) return false;
      if (until > performance.now()) return true;
      paused.delete(name);
      return false;
    },
  };
}

function isSame(a: ViewOptions, b: ViewOptions): boolean {
  return (
    // The reflector replaces objects and never mutates them.
    a.agent === b.agent &&
    a.lease === b.lease &&
    a.connected === b.connected &&
    a.fault === b.fault &&
    a.foreign === b.foreign &&
    a.disruption?.reason === b.disruption?.reason &&
    a.disruption?.message === b.disruption?.message
  );
}

/** Returns equal texts for views between which no listener sees a difference. */
function signOf(view: AgentView, uid: string | undefined, fate: AgentFate): string {
  const { incarnation, slots, costs, speech, memory, memoryMib, vram, cards, vramHeldMib } = view;
  const { live, address, readiness } = view;
  const maps = [[...costs], [...(memory ?? [])], [...(vram ?? [])], [...live]];
  const onCards = [cards, vramHeldMib];
  return JSON.stringify([
    incarnation,
    slots,
    maps,
    speech,
    memoryMib,
    onCards,
    address,
    readiness,
    uid,
    fate,
  ]);
}
