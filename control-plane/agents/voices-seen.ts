import { createWorkQueue } from '@semblance/common/async/work-queue';
import type { Reflector } from '@semblance/common/kube/index';
import type { Logger } from '@semblance/common/logging';
import type { AgentPool } from '@semblance/crds/gen/agentpools';
import type { GpuAgent } from '@semblance/crds/gen/gpuagents';
import { joined, type Speech, speechFault } from '@semblance/engine-api/speech';
import type { Database } from '../storage/database.ts';
import { poolOf } from './pool-of.ts';

/** Source of the agents that belong to no pool. */
const NO_POOL = '';
/** Pause before the resources are looked at again while not all are known, in ms. */
const UNKNOWN_MS = 500;

export interface VoicesSeenOptions {
  readonly database: Database;
  readonly agents: Pick<Reflector<GpuAgent>, 'list' | 'hasSynced' | 'addHandlers'>;
  readonly pools: Pick<Reflector<AgentPool>, 'list' | 'hasSynced' | 'addHandlers'>;
  readonly logger: Logger;
}

/** What the agents of one source say of their voices; undefined: one of them says nothing. */
type Announced = ReadonlyMap<string, Speech | undefined>;

/**
 * Keeps the voices that agents announce for Avatar, by the pool of the agents. Those of a pool without agents stay: it
 * may be scaled to nothing, or its agents are being replaced. They go when the pool is gone or offers no Avatar any more
 * and agents of another pool are there; so there is never a moment at which a right voice is refused because nobody is up.
 */
export function createVoicesSeen({ database, agents, pools, logger }: VoicesSeenOptions) {
  /** By source, what was kept last, as JSON. */
  const kept = new Map<string, string>();
  const queue = createWorkQueue({ name: 'voices', concurrency: 1, logger, process, maxDelayMs: 5_000 });
  const look = () => queue.add('voices');
  agents.addHandlers({ onAdd: look, onUpdate: look, onDelete: look });
  pools.addHandlers({ onAdd: look, onUpdate: look, onDelete: look });

  async function process(): Promise<{ requeueAfterMs: number } | undefined> {
    if (!agents.hasSynced || !pools.hasSynced) return { requeueAfterMs: UNKNOWN_MS };
    const known = pools.list();
    const announced = announcedBy(agents.list(), known);
    const { sql } = database;
    for (const [source, speech] of announced) {
      const text = JSON.stringify(speech ?? null);
      if (kept.get(source) === text) continue;
      await sql`
        insert into announced_voices (source, speech) values (${source}, nullif(${text}::jsonb, 'null'))
        on conflict (source) do update set speech = excluded.speech
          where announced_voices.speech is distinct from excluded.speech`;
      kept.set(source, text);
      logger.info({ pool: source, voices: speech?.voices.length }, 'agents announce these voices');
    }
    const possible = [
      ...announced.keys(),
      ...known.filter(mayOfferAvatar).map(({ metadata }) => metadata.name),
    ];
    if (announced.size > 0) {
      await sql`delete from announced_voices where source <> all(${possible}::text[])`;
      for (const source of kept.keys()) if (!possible.includes(source)) kept.delete(source);
    }
    return undefined;
  }

  return {
    /** Works until aborted. */
    run: (signal: AbortSignal): Promise<void> => queue.run(signal),
  };
}

const mayOfferAvatar = ({ spec }: AgentPool) => !spec.capabilities || spec.capabilities.includes('avatar');

/** Returns what the present agents with Avatar announce, by source. */
function announcedBy(agents: readonly GpuAgent[], pools: readonly AgentPool[]): Announced {
  const all = new Map<string, (Speech | undefined)[]>();
  for (const agent of agents) {
    const { engines = [], draining } = agent.status ?? {};
    // The first engine that offers a capability is the one that the agent uses.
    const avatar = engines.flatMap(({ capabilities }) => capabilities).find(({ name }) => name === 'avatar');
    if (!avatar || draining) continue;
    const source = poolOf(agent, pools) ?? NO_POOL;
    all.set(source, [...(all.get(source) ?? []), usable(avatar.speech)]);
  }
  return new Map(
    [...all].map(([source, said]) => {
      const told = said.filter((speech) => speech !== undefined);
      return [source, told.length === said.length ? joined(told) : undefined];
    }),
  );
}

/** An agent of another release may say what this one does not understand. */
function usable(said: object | undefined): Speech | undefined {
  const speech = said as Speech | undefined;
  return speech && speechFault(speech) === undefined ? speech : undefined;
}
