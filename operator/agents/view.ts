import { certificateOf } from '@semblance/common/agent-certificate';
import type { GpuAgent } from '@semblance/crds/gen/gpuagents';
import type { Speech } from '@semblance/engine-api/speech';
import type { Disruption } from './disruption.ts';

/** State of an agent's Lease, as the operator has seen it. */
export type LeaseState =
  | 'held'
  /** The Lease was not renewed in time: the agent gets no new work. */
  | 'late'
  /** The Lease has lapsed or was released: the process has ended its work. */
  | 'lost';

/** An agent as the operator judges it. */
export interface AgentView {
  readonly name: string;
  readonly incarnation: string;
  readonly slots: number;
  /** Slots that one render takes, by capability. */
  readonly costs: ReadonlyMap<string, number>;
  /** Voices and languages of its Avatar. Undefined: its engine does not tell them, or it has none. */
  readonly speech?: Speech | undefined;
  /** Most memory that one render takes, in MiB, by capability. */
  readonly memory?: ReadonlyMap<string, number>;
  /** Memory for all renders together, in MiB. Undefined: the agent does not say. */
  readonly memoryMib?: number | undefined;
  /** Cards that the agent sees. */
  readonly cards?: readonly { readonly uuid: string; readonly totalMib: number }[];
  /** Memory that its engines hold on them with their models, in MiB. */
  readonly vramHeldMib?: number;
  /** Most memory that one render takes on them beside that, in MiB, by capability. */
  readonly vram?: ReadonlyMap<string, number>;
  /** Live sessions that the agent can hold at once, by capability. */
  readonly live: ReadonlyMap<string, LiveSlots>;
  /** host:port of its gRPC service. Empty: it has none, or states one that is not its own. */
  readonly address: string;
  /** Certificate of that service, in PEM. */
  readonly certificate?: string | undefined;
  readonly readiness: Readiness;
}

export interface LiveSlots {
  readonly slots: number;
  /** The models are being warmed up; slots follow. */
  readonly warming: boolean;
}

export interface Readiness {
  readonly ready: boolean;
  readonly reason:
    | 'Ready'
    | 'NotRegistered'
    | 'Draining'
    | 'HeartbeatLost'
    | 'Unreachable'
    | Disruption['reason'];
  readonly message: string;
  /** The agent is new, and nothing has gone wrong yet. */
  readonly starting?: true;
}

export interface ViewOptions {
  readonly agent: GpuAgent;
  readonly lease: LeaseState;
  /** The stream of attempts is open and has sent its snapshot. */
  readonly connected: boolean;
  /** Why the stream is not open. */
  readonly fault?: string | undefined;
  /** Why the stated address is not its own; it is not called then. */
  readonly foreign?: string | undefined;
  /** Disruption of its Pod or node. */
  readonly disruption?: Disruption | undefined;
}

/** Returns whether refused work is meant to go elsewhere; nothing is broken. */
export function isDraining({ reason }: Readiness): boolean {
  return reason === 'Draining' || reason === 'PodTerminating' || reason === 'NodeCordoned';
}

export function viewOf(options: ViewOptions): AgentView {
  const { agent } = options;
  const {
    incarnation = '',
    address = '',
    slots = 0,
    engines = [],
    live = [],
    cards = [],
    memoryMib,
  } = agent.status ?? {};
  const costs = new Map<string, number>();
  const memory = new Map<string, number>();
  const vram = new Map<string, number>();
  let speech: Speech | undefined;
  for (const { capabilities } of engines) {
    for (const capability of capabilities) {
      // The first engine that offers a capability is the one the agent uses.
      if (costs.has(capability.name)) continue;
      costs.set(capability.name, capability.slots);
      if (capability.speech) speech = capability.speech as Speech;
      if (capability.memoryMib !== undefined) memory.set(capability.name, capability.memoryMib);
      if (capability.vramMib !== undefined) vram.set(capability.name, capability.vramMib);
    }
  }
  return {
    name: agent.metadata.name ?? '',
    incarnation,
    address: options.foreign === undefined ? address : '',
    certificate: certificateOf(agent),
    slots,
    costs,
    speech,
    memory,
    memoryMib,
    cards: cards.map(({ uuid, totalMib }) => ({ uuid, totalMib })),
    vramHeldMib: engines.reduce((sum, { vramMib = 0 }) => sum + vramMib, 0),
    vram,
    live: new Map(live.map((each) => [each.name, { slots: each.slots, warming: each.warming ?? false }])),
    readiness: readinessOf(options),
  };
}

/** Decides whether the agent may get work; if not, with a one-line reason. */
function readinessOf({ agent, lease, connected, fault, foreign, disruption }: ViewOptions): Readiness {
  const { status, spec } = agent;
  const no = (reason: Readiness['reason'], message: string) => ({ ready: false, reason, message });
  if (!status?.incarnation || !status.address) {
    return { ...no('NotRegistered', 'No process has registered under this name.'), starting: true };
  }
  if (lease === 'lost')
    return no('HeartbeatLost', 'Its Lease has lapsed or was released; its work was given to others.');
  if (lease === 'late')
    return no('HeartbeatLost', 'It has not renewed its Lease in time; it gets no new work.');
  // A disruption counts before what the agent says, because others report it, and sooner.
  if (disruption) return no(disruption.reason, `${disruption.message} It gets no new work.`);
  if (spec.drain) return no('Draining', 'spec.drain is set: running work is finished, none is added.');
  if (status.draining)
    return no('Draining', 'The process is ending: running work is finished, none is added.');
  if (foreign !== undefined) return no('Unreachable', `The operator does not call it: ${foreign}.`);
  if (!connected) {
    const cannot = `The operator cannot reach it at ${status.address}`;
    if (fault !== undefined) return no('Unreachable', `${cannot}: ${fault}.`);
    return { ...no('Unreachable', `${cannot}: connecting.`), starting: true };
  }
  return { ready: true, reason: 'Ready', message: `Takes work at ${status.address}.` };
}
