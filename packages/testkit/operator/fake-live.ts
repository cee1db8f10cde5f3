import { type ServerWritableStream, status } from '@grpc/grpc-js';
import { GrpcError, type GrpcService, unary } from '@semblance/common/grpc/server';
import { silentLogger } from '@semblance/common/logging';
import type { GpuAgentStatus } from '@semblance/crds/gen/gpuagents';
import {
  type ClaimSlotRequest,
  EndReason,
  type EndSessionRequest,
  LiveServiceService,
  SessionState,
  type SessionStatus,
  type WatchSessionsRequest,
  type WatchSessionsResponse,
} from '@semblance/proto/semblance/live/v1/live';

/** Every interval in which a slot was held anywhere, to prove that none was held twice. */
export interface SlotLedger {
  readonly entries: { session: string; place: string; slot: number; from: number; to: number }[];
}

/** Statement about live slots in a GpuAgent. */
export type SaidLive = NonNullable<GpuAgentStatus['live']>;

export interface FakeLiveOptions {
  readonly agent: string;
  readonly incarnation: string;
  /** Slots by capability. */
  readonly slots: Readonly<Record<string, number>>;
  readonly ledger?: SlotLedger | undefined;
  /**
   * Whether every claim is accepted, so that only the operator limits their number. A claim beyond the slots is
   * recorded as the last slot.
   */
  readonly lax?: boolean | undefined;
}

/** Live part of a scripted agent. */
export interface FakeLive {
  readonly claims: ClaimSlotRequest[];
  readonly ends: { session: string; reason: EndReason }[];
  /** Sessions that hold a slot. */
  readonly held: ReadonlyMap<string, SessionStatus>;
  /** Largest number of sessions that held slots at once, by capability. */
  readonly most: ReadonlyMap<string, number>;
  /** Status with which the next claims are refused. */
  refuseWith: status | undefined;
  /** Whether the next claims are never answered. */
  silent: boolean;
  /** Promise to wait for before a claim is answered; undefined: none. */
  beforeAnswer: (() => Promise<void>) | undefined;
  draining: boolean;
  /** Changes the status of a session, as a relay would. */
  change(session: string, change: Partial<SessionStatus>): void;
  end(session: string, reason?: EndReason): void;
  /** Forgets an ended session, as an agent does after a while. */
  forget(session: string): void;
  dropStreams(): void;
  kill(): void;
  readonly service: GrpcService;
}

interface Held {
  status: SessionStatus;
  readonly slot: number;
  readonly entry: SlotLedger['entries'][number];
}

/** Keeps the protocol of an agent's slots to the letter; media has no part in it. */
export function createFakeLive(options: FakeLiveOptions): FakeLive {
  const { agent, incarnation, slots, ledger, lax } = options;
  const sessions = new Map<string, Held>();
  const burned = new Set<string>();
  const streams = new Set<ServerWritableStream<WatchSessionsRequest, WatchSessionsResponse>>();
  const most = new Map<string, number>();
  const logger = silentLogger();
  let dead = false;
  const refuse = (code: status, why: string) => {
    throw new GrpcError(code, why);
  };
  const isHeld = ({ status: { state } }: Held) => state !== SessionState.SESSION_STATE_ENDED;
  /** Sessions in each slot, by capability. */
  const taken = new Map<string, string[][]>();
  const slotsOf = (capability: string, count: number) => {
    const known = taken.get(capability) ?? Array.from({ length: count }, (): string[] => []);
    taken.set(capability, known);
    return known;
  };

  function tell(session: SessionStatus): void {
    for (const stream of streams) stream.write({ snapshot: false, sessions: [session] });
  }

  function claim({ sessionId, capability, incarnation: asked }: ClaimSlotRequest): void {
    if (asked !== incarnation) refuse(status.FAILED_PRECONDITION, 'another incarnation');
    const known = sessions.get(sessionId);
    if (known && isHeld(known)) return;
    if (known || burned.has(sessionId)) refuse(status.FAILED_PRECONDITION, 'it has ended here');
    if (self.draining) refuse(status.FAILED_PRECONDITION, 'draining');
    const count = slots[capability];
    if (count === undefined) throw new GrpcError(status.INVALID_ARGUMENT, 'not done live here');
    const all = slotsOf(capability, count);
    const used = all.reduce((sum, there) => sum + there.length, 0);
    if (used >= count && !lax) refuse(status.RESOURCE_EXHAUSTED, 'no slot');
    const free = all.findIndex((there) => there.length === 0);
    const slot = free === -1 ? count - 1 : free;
    all[slot]?.push(sessionId);
    const place = `${agent}/${incarnation}/${capability}`;
    const entry = { session: sessionId, place, slot, from: performance.now(), to: Number.POSITIVE_INFINITY };
    ledger?.entries.push(entry);
    const state = SessionState.SESSION_STATE_CLAIMED;
    const told = {
      sessionId,
      capability,
      state,
      streamedMs: 0n,
      received: 0n,
      converted: 0n,
      dropped: 0n,
      reason: EndReason.END_REASON_UNSPECIFIED,
      goingAway: false,
      fault: '',
      rejected: '',
    };
    sessions.set(sessionId, { status: told, slot, entry });
    most.set(capability, Math.max(most.get(capability) ?? 0, used + 1));
    tell(told);
  }

  function change(session: string, update: Partial<SessionStatus>): void {
    const held = sessions.get(session);
    if (!held || dead || !isHeld(held)) return;
    held.status = { ...held.status, ...update };
    if (!isHeld(held)) {
      held.entry.to = performance.now();
      const there = taken.get(held.status.capability)?.[held.slot];
      there?.splice(there.indexOf(session), 1);
    }
    tell(held.status);
  }

  const end = (session: string, reason: EndReason = EndReason.END_REASON_UNSPECIFIED) =>
    change(session, { state: SessionState.SESSION_STATE_ENDED, reason });

  const self: FakeLive = {
    claims: [],
    ends: [],
    get held() {
      return new Map([...sessions].flatMap(([name, held]) => (isHeld(held) ? [[name, held.status]] : [])));
    },
    most,
    refuseWith: undefined,
    silent: false,
    beforeAnswer: undefined,
    draining: false,
    change,
    end,
    forget: (session) => void sessions.delete(session),
    dropStreams() {
      for (const stream of streams) stream.emit('error', { code: status.UNAVAILABLE, details: 'dropped' });
      streams.clear();
    },
    kill() {
      dead = true;
      for (const held of sessions.values()) if (isHeld(held)) held.entry.to = performance.now();
      for (const stream of streams) stream.destroy();
    },
    service: {
      name: 'semblance.live.v1.LiveService',
      definition: LiveServiceService,
      implementation: {
        claimSlot: unary(logger, async (request: ClaimSlotRequest) => {
          self.claims.push(request);
          if (self.refuseWith !== undefined) refuse(self.refuseWith, 'scripted refusal');
          claim(request);
          await self.beforeAnswer?.();
          if (self.silent) await new Promise(() => {});
          return {};
        }),
        endSession: unary(logger, async ({ sessionId, incarnation: asked, reason }: EndSessionRequest) => {
          if (asked !== incarnation) refuse(status.FAILED_PRECONDITION, 'another incarnation');
          self.ends.push({ session: sessionId, reason });
          burned.add(sessionId);
          end(sessionId, reason);
          return {};
        }),
        watchSessions(stream: ServerWritableStream<WatchSessionsRequest, WatchSessionsResponse>) {
          if (stream.request.incarnation !== incarnation) {
            stream.emit('error', { code: status.FAILED_PRECONDITION, details: 'another incarnation' });
            return;
          }
          streams.add(stream);
          const gone = () => streams.delete(stream);
          stream.on('cancelled', gone).on('close', gone).on('error', gone);
          stream.write({ snapshot: true, sessions: [...sessions.values()].map((held) => held.status) });
        },
        relay(stream: { destroy(): void }) {
          stream.destroy();
        },
      },
    },
  };
  return self;
}

/** Slots that two sessions held at the same time, and sessions that held two, in words. */
export function doubles({ entries }: SlotLedger): string[] {
  const found: string[] = [];
  const check = (by: (entry: SlotLedger['entries'][number]) => string) => {
    for (const [key, held] of Map.groupBy(entries, by)) {
      const sorted = held.toSorted((a, b) => a.from - b.from);
      for (const [i, one] of sorted.entries()) {
        const next = sorted[i + 1];
        if (next && next.from < one.to) found.push(`${key}: ${one.session} and ${next.session}`);
      }
    }
  };
  check(({ place, slot }) => `${place}#${slot}`);
  return found;
}
