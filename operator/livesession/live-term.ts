import { setTimeout as delay } from 'node:timers/promises';
import { status } from '@grpc/grpc-js';
import { GrpcError } from '@semblance/common/grpc/server';
import type { Tls } from '@semblance/common/grpc/tls/tls';
import type { EventRecorder, Handlers, KubeClient, Reflector } from '@semblance/common/kube/index';
import type { Logger } from '@semblance/common/logging';
import type { GpuAgent } from '@semblance/crds/gen/gpuagents';
import type { LiveSession } from '@semblance/crds/gen/livesessions';
import type { ObjectStore } from '@semblance/objects/store';
import type { AllocateRequest, AllocateResponse } from '@semblance/proto/semblance/operator/v1/operator';
import type { Registry } from 'prom-client';
import type { Fleet } from '../agents/fleet.ts';
import type { AgentView } from '../agents/view.ts';
import type { PoolController } from '../pools/pool-controller.ts';
import type { AgentFate } from '../renderjob/types.ts';
import { type CallerContext, createAllocator } from './allocator.ts';
import type { Candidate } from './choose.ts';
import { createSessionController } from './controller.ts';
import { createLiveLinks } from './live-links.ts';
import { createLiveMetrics } from './live-metrics.ts';
import { createPlacer } from './placer.ts';
import { createSlotBook, type Place } from './slot-book.ts';
import { isStanding } from './status.ts';

/** Longest wait of an allocation for a new leader to be ready, in ms. */
const READY_WITHIN_MS = 2_000;

export interface LiveTermOptions {
  readonly client: KubeClient;
  /** Client for the one write of an allocation. */
  readonly allocationClient: KubeClient;
  readonly namespace: string;
  readonly identity: string;
  readonly sessions: Reflector<LiveSession>;
  readonly agents: Reflector<GpuAgent>;
  readonly fleet: Pick<Fleet, 'viewOf' | 'fateOf'>;
  readonly objects: ObjectStore;
  readonly internalToken?: string | undefined;
  readonly tls?: Tls | undefined;
  readonly recorder: EventRecorder;
  readonly registry: Registry;
  readonly logger: Logger;
  /** Called when the used slots of the agent have changed. */
  readonly onUsed: (agent: string) => void;
  /** Pools that may start agents for sessions. */
  readonly pools?: Pick<PoolController, 'mayGrow' | 'opens'>;
  /** Time limits in ms: for a slot when all are taken, and for an agent's answer to a claim. */
  readonly waitForSlotMs?: number | undefined;
  readonly claimTimeoutMs?: number | undefined;
}

export interface LiveTerm {
  readonly handlers: Handlers<LiveSession>;
  /** Must be called when registration, readiness or fate of the agent has changed. */
  touchAgent(agent: string): void;
  /** Returns the slots taken on that process, by capability that it carries. */
  usedOn(view: AgentView): ReadonlyMap<string, number>;
  allocate(request: AllocateRequest, caller: CallerContext): Promise<AllocateResponse>;
  /** Every local copy must be as new as the leadership. */
  run(signal: AbortSignal): Promise<void>;
}

export function createLiveTerm(options: LiveTermOptions): LiveTerm {
  const { sessions, agents, fleet } = options;
  const metrics = createLiveMetrics(options.registry);
  /** Resolves when the new leader has read everything. */
  const ready = Promise.withResolvers<AbortSignal>();
  let leading: AbortSignal | undefined;

  const viewOf = (name: string): AgentView | undefined => {
    const agent = agents.get(name);
    return agent && fleet.viewOf(agent);
  };
  const book = createSlotBook({
    onFreed: (capability) => placer.freed(capability),
    onChanged: ({ agent }) => options.onUsed(agent),
  });
  const links = createLiveLinks({
    ...options,
    viewOf,
    onSnapshot(place, reports, openedAt) {
      for (const session of book.snapshot(place, reports, openedAt)) controller.touch(session);
      touchSessionsOn(place.agent);
      placer.touch(place.agent);
    },
    onReport(place, report) {
      book.report(place, report);
      controller.touch(report.sessionId);
    },
    onDisconnected({ agent }) {
      placer.touch(agent);
      touchSessionsOn(agent);
    },
  });
  const { pools } = options;
  const placer = createPlacer({ book, candidate, onWaiting: metrics.waiting, mayGrow: pools?.mayGrow });
  const controller = createSessionController({ ...options, book, links, fateOf, metrics });
  const allocator = createAllocator({
    ...options,
    book,
    placer,
    links,
    fateOf,
    metrics,
    client: options.allocationClient,
    opens: pools?.opens,
    onDoomed: (session) => controller.touch(session),
  });

  /** Returns the fate by the stream of sessions: a connected process does not hold what that does not show. */
  function fateOf({ agent, incarnation }: Place): AgentFate {
    const fate = fleet.fateOf(agent, incarnation);
    if (fate === 'lost' || fate === 'replaced') return fate;
    return links.to({ agent, incarnation })?.connected ? 'connected' : 'unreachable';
  }

  function candidate(name: string): Candidate | undefined {
    const view = viewOf(name);
    if (!view) return undefined;
    const { ready, reason } = view.readiness;
    const connected = links.to({ agent: name, incarnation: view.incarnation })?.connected;
    const soon = ready || reason === 'Unreachable';
    return { ...view, outlook: ready && connected ? 'ready' : soon ? 'soon' : 'no' };
  }

  function touchSessionsOn(agent: string): void {
    for (const name of book.sessionsOn(agent)) controller.touch(name);
  }

  function seen(session: LiveSession, old?: LiveSession): void {
    const { name = '' } = session.metadata;
    const { agent, incarnation, capability } = session.spec;
    const place = { agent, incarnation };
    const standing = isStanding(session);
    // The session ends even if something keeps the deleted LiveSession.
    if (!standing && old && isStanding(old) && session.metadata.deletionTimestamp)
      book.doom(place, name, capability);
    else book.bind(place, name, capability, standing);
    controller.touch(name);
  }

  return {
    handlers: {
      onAdd: (session) => seen(session),
      onUpdate: seen,
      onDelete(session) {
        const { name = '' } = session.metadata;
        const { agent, incarnation, capability } = session.spec;
        if (isStanding(session)) book.doom({ agent, incarnation }, name, capability);
        else book.bind({ agent, incarnation }, name, capability, false);
        controller.touch(name);
      },
    },
    touchAgent(agent) {
      links.touch(agent);
      placer.touch(agent);
      touchSessionsOn(agent);
    },
    usedOn({ name, incarnation, live }) {
      const place = { agent: name, incarnation };
      return new Map([...live.keys()].map((capability) => [capability, book.used(place, capability)]));
    },
    async allocate(request, caller) {
      const term = leading ?? (await Promise.race([ready.promise, passed(READY_WITHIN_MS)]));
      if (!term || term.aborted) throw notLeading();
      try {
        return await allocator.allocate(request, caller, term);
      } catch (error) {
        // The session may exist. The caller asks the next leader with the same id.
        if (term.aborted) throw notLeading();
        throw error;
      }
    },
    async run(signal) {
      const ended = Promise.all([links.run(signal), controller.run(signal)]);
      for (const session of sessions.list()) seen(session);
      for (const { metadata } of agents.list()) {
        links.touch(metadata.name ?? '');
        placer.touch(metadata.name ?? '');
      }
      leading = signal;
      ready.resolve(signal);
      await ended;
      placer.stop();
    },
  };
}

const passed = (ms: number): Promise<undefined> => delay(ms, undefined, { ref: false });

function notLeading(): GrpcError {
  return new GrpcError(status.UNAVAILABLE, 'This operator does not lead.');
}
