import { createWorkQueue } from '@semblance/common/async/work-queue';
import type { Reflector } from '@semblance/common/kube/index';
import type { Logger } from '@semblance/common/logging';
import type { AgentPool } from '@semblance/crds/gen/agentpools';
import type { GpuAgent } from '@semblance/crds/gen/gpuagents';
import {
  CAPABILITIES,
  CAPABILITY_NAMES,
  type Capability,
  isCapability,
} from '@semblance/engine-api/capabilities';
import { announcementFault, commonOptions, type EngineOption } from '@semblance/engine-api/option';
import type { Database } from '../storage/database.ts';

/** Begins the name of work that keeps options. */
const OPTIONS = 'options:';
const JOB_CAPABILITIES = CAPABILITY_NAMES.filter((name) => CAPABILITIES[name].shape === 'job');

export interface EnginesSeenOptions {
  readonly database: Database;
  readonly reflector: Reflector<GpuAgent>;
  readonly pools: Reflector<AgentPool>;
  readonly logger: Logger;
}

/**
 * Enables a capability when a GpuAgent that offers it is first seen; a capability that was never offered answers
 * `capability_unavailable`. Nothing disables it again: see table capabilities.
 *
 * A pool that starts its agents on demand stands for them; otherwise its work would never be admitted.
 *
 * Also keeps which options of engines callers may give: those that all present agents with the capability let through,
 * because a job may go to any of them. While there is none, those of the last ones count.
 */
export function createEnginesSeen({ database, reflector, pools, logger }: EnginesSeenOptions) {
  const noted = new Set<string>();
  /** By capability, the options that callers may give, as JSON. */
  const seenOptions = new Map<string, string>();
  const queue = createWorkQueue({ name: 'engines', concurrency: 1, logger, process, maxDelayMs: 5_000 });

  function observe({ status }: GpuAgent): void {
    for (const { capabilities } of status?.engines ?? []) {
      for (const { name } of capabilities) note(name);
    }
    // A live capability counts from the moment its slots warm up: callers are told that capacity is starting, while
    // they would give up a capability that is off. Engines of jobs appear only when warm.
    for (const { name, slots, warming } of status?.live ?? []) if (slots > 0 || warming) note(name);
  }
  function note(name: string): void {
    if (isCapability(name) && !noted.has(name)) queue.add(name);
  }
  /** Agents write their status often, and rarely with other options. */
  const said = new Map<string, string>();
  const see = (agent: GpuAgent): void => {
    observe(agent);
    const { uid = '' } = agent.metadata;
    const { engines, draining } = agent.status ?? {};
    const text = JSON.stringify([draining, engines?.map(({ capabilities }) => capabilities)]);
    if (said.get(uid) === text) return;
    said.set(uid, text);
    for (const name of JOB_CAPABILITIES) noteOptions(name);
  };
  const lose = ({ metadata: { uid = '' } }: GpuAgent): void => {
    said.delete(uid);
    for (const name of JOB_CAPABILITIES) noteOptions(name);
  };
  reflector.addHandlers({ onAdd: see, onUpdate: see, onDelete: lose });
  const observePool = ({ spec }: AgentPool): void => {
    if (spec.autoscaling) for (const name of spec.capabilities ?? []) note(name);
  };
  pools.addHandlers({ onAdd: observePool, onUpdate: observePool });

  function noteOptions(name: Capability): void {
    const open = optionsOf(name, reflector.list());
    const text = open && JSON.stringify(open);
    if (text === undefined || seenOptions.get(name) === text) return;
    seenOptions.set(name, text);
    queue.add(`${OPTIONS}${name}`);
  }

  async function keepOptions(name: string): Promise<undefined> {
    const open = JSON.parse(seenOptions.get(name) ?? '[]') as EngineOption[];
    const { fast } = database;
    const rows = await fast`
      update capabilities set engine_options = ${fast.json(open)}::jsonb
        where name = ${name} and engine_options is distinct from ${fast.json(open)}::jsonb returning name`;
    if (rows.length > 0)
      logger.info(
        { capability: name, options: open.map((option) => option.name) },
        'callers may give these options',
      );
  }

  async function process(name: string): Promise<undefined> {
    if (name.startsWith(OPTIONS)) return keepOptions(name.slice(OPTIONS.length));
    if (noted.has(name)) return;
    const rows = await database.fast<{ note_engines: string }[]>`select note_engines(${[name]}::text[])`;
    noted.add(name);
    if (rows.length > 0)
      logger.info({ capability: name }, 'an agent or a pool offers this capability for the first time');
  }

  return {
    /** Works until aborted. */
    run: (signal: AbortSignal): Promise<void> => queue.run(signal),
  };
}

/** Returns the options of a capability that callers may give; undefined when no agent has it. */
function optionsOf(capability: Capability, agents: readonly GpuAgent[]): readonly EngineOption[] | undefined {
  const lists = agents
    .filter(({ status }) => !status?.draining)
    .flatMap(({ status }) => status?.engines ?? [])
    .flatMap(({ capabilities }) => capabilities.filter(({ name }) => name === capability))
    .map(({ options = [] }) =>
      options
        .filter(({ callers }) => callers)
        .map(({ callers: _, ...option }) => option as EngineOption)
        // An agent of another release may know types that this one does not.
        .filter((option) => announcementFault(option) === undefined),
    );
  return lists.length === 0 ? undefined : commonOptions(lists);
}
