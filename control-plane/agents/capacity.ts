import type { Reflector } from '@semblance/common/kube/index';
import type { AgentPool } from '@semblance/crds/gen/agentpools';
import type { GpuAgent } from '@semblance/crds/gen/gpuagents';
import type { RenderJob } from '@semblance/crds/gen/renderjobs';
import { CAPABILITIES, CAPABILITY_NAMES } from '@semblance/engine-api/capabilities';
import type {
  AgentCapacity,
  CapabilityView,
  ShowCapacityResponse,
  WaitingWork,
} from '@semblance/proto/semblance/admin/v1/admin';
import type { Sql } from '../storage/sql.ts';
import { poolOf } from './pool-of.ts';

/** Local copies of the resources that tell of capacity. */
export interface Fleet {
  readonly agents: Pick<Reflector<GpuAgent>, 'list'>;
  readonly pools: Pick<Reflector<AgentPool>, 'list'>;
  readonly renderJobs: Pick<Reflector<RenderJob>, 'list' | 'get'>;
}

/** Returns the agents with their slots, and why work waits. */
export async function showCapacity(
  sql: Sql,
  { agents, pools, renderJobs }: Fleet,
): Promise<ShowCapacityResponse> {
  const jobs = renderJobs.list();
  const known = new Set(jobs.map(({ metadata }) => metadata.name ?? ''));
  const open = await sql<{ id: string }[]>`select id from jobs where settled_at is null limit 100000`;
  return {
    agents: agents
      .list()
      .map((agent) => capacityOf(agent, pools.list()))
      .sort((a, b) => (a.name < b.name ? -1 : 1)),
    waiting: waitingWork(jobs, Date.now()),
    running: jobs.filter(({ status }) => isBound(status?.phase)).length,
    unplaced: open.filter(({ id }) => !known.has(id)).length,
  };
}

const isBound = (phase: string | undefined) =>
  phase === 'Assigned' || phase === 'Running' || phase === 'Stopping';

function capacityOf(agent: GpuAgent, pools: readonly AgentPool[]): AgentCapacity {
  const { metadata, status } = agent;
  const ready = status?.conditions?.find(({ type }) => type === 'Ready');
  const capabilities =
    status?.engines?.flatMap((engine) => engine.capabilities.map(({ name }) => name)) ?? [];
  return {
    name: metadata.name ?? '',
    pool: poolOf(agent, pools),
    node: status?.node,
    ready: ready?.status === 'True',
    reason: ready?.reason ?? 'NotRegistered',
    message: ready?.message ?? 'Nothing is known of it yet.',
    slots: status?.slots ?? 0,
    slotsUsed: status?.slotsUsed ?? 0,
    live: status?.liveNames ?? '',
    engines: status?.engineNames ?? '',
    capabilities: [...new Set(capabilities)],
  };
}

/** Sums the work that waits by capability and by what the operator says of it. */
export function waitingWork(jobs: readonly RenderJob[], now: number): WaitingWork[] {
  const groups = new Map<string, WaitingWork & { readonly since: number }>();
  for (const { metadata, spec, status } of jobs) {
    const phase = status?.phase ?? 'Pending';
    if (metadata.deletionTimestamp || (phase !== 'Pending' && phase !== 'Suspended')) continue;
    const ready = status?.conditions?.find(({ type }) => type === 'Ready');
    const reason = ready?.reason ?? 'Unexplained';
    const since = Date.parse(status?.queueTime ?? metadata.creationTimestamp ?? '') || now;
    const key = `${spec.capability} ${reason}`;
    const before = groups.get(key);
    const oldest = !before || since < before.since;
    groups.set(key, {
      capability: spec.capability,
      reason,
      jobs: (before?.jobs ?? 0) + 1,
      since: oldest ? since : before.since,
      longestSeconds: BigInt(Math.max(0, Math.round((now - (oldest ? since : before.since)) / 1000))),
      message: oldest ? (ready?.message ?? '') : before.message,
    });
  }
  return [...groups.values()]
    .map(({ since: _, ...work }) => work)
    .sort((a, b) => b.jobs - a.jobs || (a.capability < b.capability ? -1 : 1));
}

/** Lists all capabilities with what makes each offered or not. */
export async function listCapabilities(
  sql: Sql,
  { agents }: Pick<Fleet, 'agents'>,
): Promise<CapabilityView[]> {
  const rows = await sql<
    { name: string; switched_on: boolean; has_engine: boolean; engine_seen_at: Date | null }[]
  >`select name, switched_on, has_engine, engine_seen_at from capabilities`;
  const offered = agents
    .list()
    .filter(({ status }) => !status?.draining)
    .map(
      ({ status }) =>
        new Set([
          ...(status?.engines ?? []).flatMap((engine) =>
            engine.capabilities.map(({ name }) => name as string),
          ),
          ...(status?.live ?? []).filter(({ slots }) => slots > 0).map(({ name }) => name as string),
        ]),
    );
  return CAPABILITY_NAMES.flatMap((capability) => {
    const row = rows.find(({ name }) => name === capability);
    if (!row) return [];
    return [
      {
        capability,
        title: CAPABILITIES[capability].title,
        switchedOn: row.switched_on,
        hasEngine: row.has_engine,
        enabled: row.switched_on && row.has_engine,
        engineSeenAt: row.engine_seen_at?.toISOString(),
        agents: offered.filter((names) => names.has(capability)).length,
      },
    ];
  });
}
