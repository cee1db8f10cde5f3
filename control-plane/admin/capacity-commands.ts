import type { Command } from './command.ts';
import type { AdminCalls } from './connection.ts';

type Row = Record<string, unknown>;

const AGENTS = [
  ...[
    'name',
    'pool',
    'node',
    'ready',
    'reason',
    'slots',
    'slots_used',
    'live',
    'engines',
    'capabilities',
    'message',
  ],
];
const WAITING = ['capability', 'reason', 'jobs', 'longest_sec', 'message'];

/** Commands for what the installation can do now. */
export const CAPACITY_COMMANDS: readonly Command[] = [
  {
    name: 'capability list',
    columns: ['name', 'title', 'enabled', 'switched_on', 'has_engine', 'engine_seen_at', 'agents'],
    help: 'Lists what is offered, and what it lacks where it is not.',
    flags: [],
    async run(_flags, calls) {
      const { capabilities } = await calls.invoke('listCapabilities', {});
      return (capabilities as Row[]).map((view) => ({
        name: view.capability,
        title: view.title,
        enabled: view.enabled,
        switched_on: view.switchedOn,
        has_engine: view.hasEngine,
        engine_seen_at: view.engineSeenAt ?? null,
        agents: view.agents,
      }));
    },
  },
  {
    name: 'capacity list',
    tables: { agents: AGENTS, waiting: WAITING },
    help: 'Shows the agents with their slots, and what waits and why; `capacity` alone is the same.',
    flags: [],
    run: (_flags, calls) => capacity(calls),
  },
  {
    name: 'capacity agents',
    columns: AGENTS,
    help: 'Lists the agents alone.',
    flags: [],
    run: async (_flags, calls) => (await capacity(calls)).agents,
  },
  {
    name: 'capacity queue',
    columns: WAITING,
    help: 'Lists what waits, by capability and reason.',
    flags: [],
    run: async (_flags, calls) => (await capacity(calls)).waiting,
  },
];

async function capacity(calls: AdminCalls) {
  const answer = await calls.invoke('showCapacity', {});
  const agents = (answer.agents as Row[]).map((agent) => ({
    name: agent.name,
    pool: agent.pool ?? null,
    node: agent.node ?? null,
    ready: agent.ready,
    reason: agent.reason,
    slots: agent.slots,
    slots_used: agent.slotsUsed,
    live: agent.live,
    engines: agent.engines,
    capabilities: (agent.capabilities as string[]).join(' '),
    message: agent.message,
  }));
  const waiting = (answer.waiting as Row[]).map((work) => ({
    capability: work.capability,
    reason: work.reason,
    jobs: work.jobs,
    longest_sec: Number(work.longestSeconds),
    message: work.message,
  }));
  const sum = (of: (agent: (typeof agents)[number]) => unknown) =>
    agents.reduce((total, agent) => total + Number(of(agent)), 0);
  return {
    agents_ready: agents.filter(({ ready }) => ready).length,
    slots: sum(({ slots }) => slots),
    slots_used: sum((agent) => agent.slots_used),
    jobs_running: answer.running,
    jobs_waiting: waiting.reduce((total, { jobs }) => total + Number(jobs), 0),
    jobs_unplaced: answer.unplaced,
    agents,
    waiting,
  };
}
