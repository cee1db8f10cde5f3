import { setTimeout as delay } from 'node:timers/promises';
import { createWorkQueue } from '@semblance/common/async/work-queue';
import { describeError } from '@semblance/common/errors';
import type { KubeClient, Reflector } from '@semblance/common/kube/index';
import type { Logger } from '@semblance/common/logging';
import { LIVESESSION_RESOURCE, type LiveSession } from '@semblance/crds/gen/livesessions';
import type { Database } from '../storage/database.ts';
import { createHeard } from './heard.ts';
import { type EndedFacts, type EndRow, endedBy, isEndReason } from './reports.ts';
import { isSessionId } from './session-id.ts';

export interface SessionWatcherOptions {
  readonly database: Database;
  readonly client: Pick<KubeClient, 'find' | 'delete'>;
  readonly reflector: Reflector<LiveSession>;
  readonly namespace: string;
  readonly logger: Logger;
  readonly now?: (() => Date) | undefined;
  readonly onEnded?: (facts: EndedFacts) => void;
  /** Pause between two comparisons of all open sessions with their LiveSessions. Default 15 s. */
  readonly sweepEveryMs?: number | undefined;
  /**
   * Time between the end of one side and the action on the other, for the gateway's last report and the operator's
   * last write. Default 6 s, which is three reports. Time in which the database did not answer does not count.
   */
  readonly graceMs?: number | undefined;
}

/** Pause between two pings of the database, and longest gap between two answers, in ms. */
const LISTEN_EVERY_MS = 1_000;
const GAP_MS = 3_000;

interface SessionRow {
  readonly state: string;
  readonly ended_ms: number | null;
  readonly end_requested: boolean;
}

/**
 * Keeps sessions and their LiveSessions from outliving each other. A deleted or ended LiveSession ends its session,
 * billed as reported if its gateway says no more. The LiveSession of an ended session is deleted if nothing else
 * ends it. Level-triggered, like the watcher of jobs.
 */
export function createSessionWatcher(options: SessionWatcherOptions) {
  const { database, client, reflector, namespace, logger, now, onEnded } = options;
  const { sweepEveryMs = 15_000, graceMs = 6_000 } = options;
  const { sql } = database;
  /** LiveSessions that are over, by name: since when this process knows it, and why. */
  const over = new Map<string, { readonly since: number; readonly reason: string | undefined }>();
  const heard = createHeard(GAP_MS);
  const queue = createWorkQueue({ name: 'sessions', concurrency: 8, logger, process, maxDelayMs: 5_000 });

  reflector.addHandlers({
    onAdd: observe,
    onUpdate: observe,
    onDelete(session) {
      const name = nameOf(session);
      if (name === undefined) return;
      noteOver(name, hasEnded(session) ? reasonOf(session) : 'cancelled');
      queue.addAfter(name, graceMs);
    },
    onSynced: () => void sweepOrWarn(),
  });

  function observe(session: LiveSession): void {
    const name = nameOf(session);
    if (name === undefined || !hasEnded(session)) return;
    // Ended ones that are kept come with every list.
    if (!reflector.hasSynced) return;
    noteOver(name, reasonOf(session));
    queue.addAfter(name, graceMs);
  }

  function noteOver(name: string, reason: string | undefined) {
    const known = over.get(name) ?? { since: performance.now(), reason };
    over.set(name, known);
    return known;
  }

  async function process(name: string): Promise<{ requeueAfterMs: number } | undefined> {
    const [row] = await sql<SessionRow[]>`
      select state, (extract(epoch from now() - ended_at) * 1000)::float8 as ended_ms,
             end_requested_at is not null as end_requested
      from sessions where id = ${name}`;
    const session = reflector.get(name, namespace);
    if (!row || row.ended_ms !== null) {
      over.delete(name);
      // A slot that nobody pays for.
      if (row?.ended_ms != null && session && !hasEnded(session))
        // An end in the future was written before the clock was set back.
        return withdraw(name, row.ended_ms < 0 ? 0 : graceMs - row.ended_ms);
      return;
    }
    // The opening process handles it, or it expires by its age.
    if (row.state === 'opening') return;
    if (session && !hasEnded(session)) {
      over.delete(name);
      return row.end_requested ? withdraw(name, 0) : undefined;
    }
    const { since, reason } = noteOver(name, session ? reasonOf(session) : 'cancelled');
    const wait = settleAt(since) - performance.now();
    if (wait > 0) return { requeueAfterMs: wait };
    if (!session) {
      // The local copy may be behind; the API decides.
      const found = await client.find(LIVESESSION_RESOURCE, { name, namespace });
      if (found) {
        over.delete(name);
        reflector.note(found);
        return hasEnded(found) ? { requeueAfterMs: 0 } : undefined;
      }
    }
    const [settled] = await sql<EndRow[]>`
      select ${name} as session, e.* from settle_session(${name}, ${reason ?? null}, ${now?.().toISOString() ?? null}::timestamptz) e`;
    over.delete(name);
    const facts = settled && endedBy(settled);
    if (!facts) return;
    logger.info({ sessionId: name, reason: facts.reason }, 'settled a session whose LiveSession has ended');
    onEnded?.(facts);
  }

  /**
   * Returns when the gateway's last report has had its time. After an outage that is twice the grace: a report
   * under way may hang for the time limit of a statement, and is sent again only then.
   */
  function settleAt(since: number): number {
    const heardSince = heard.since() ?? performance.now();
    return heardSince > since ? heardSince + 2 * graceMs : since + graceMs;
  }

  async function withdraw(name: string, waitMs: number): Promise<{ requeueAfterMs: number } | undefined> {
    if (waitMs > 0) return { requeueAfterMs: waitMs };
    logger.info({ sessionId: name }, 'deleting a LiveSession whose session has ended or must end');
    await client.delete(LIVESESSION_RESOURCE, { name, namespace });
    return;
  }

  /** Compares the open ones of both sides. */
  async function sweep(): Promise<void> {
    if (!reflector.hasSynced || reflector.healthySince === undefined) return;
    let after = { account: '', id: '' };
    for (;;) {
      const rows = await sql<{ id: string; account_id: string; end_requested: boolean }[]>`
        select id, account_id, end_requested_at is not null as end_requested from sessions
        where ended_at is null and state <> 'opening' and (account_id, id) > (${after.account}, ${after.id})
        order by account_id, id limit 500`;
      const last = rows.at(-1);
      if (!last) break;
      after = { account: last.account_id, id: last.id };
      for (const { id, end_requested } of rows) {
        const session = reflector.get(id, namespace);
        if (!session || hasEnded(session) || end_requested) queue.add(id);
      }
    }
    const held = reflector
      .list()
      .filter((session) => !hasEnded(session))
      .flatMap((session) => nameOf(session) ?? []);
    if (held.length === 0) return;
    const orphans = await sql<{ id: string }[]>`
      select id from sessions where id = any(${held}::text[]) and ended_at is not null`;
    for (const { id } of orphans) queue.add(id);
  }

  const sweepOrWarn = () =>
    sweep().catch((error) => logger.warn(`cannot sweep sessions: ${describeError(error)}`));

  return {
    /** Checks the LiveSession of a session now, because its end was requested. */
    nudge: (sessionId: string) => queue.add(sessionId),

    /** Works until aborted. */
    async run(signal: AbortSignal): Promise<void> {
      const sweeping = async () => {
        while (!signal.aborted) {
          await delay(sweepEveryMs, undefined, { signal }).catch(() => {});
          if (!signal.aborted) await sweepOrWarn();
        }
      };
      const listening = async () => {
        while (!signal.aborted) {
          await sql`select 1`.then(heard.answered, heard.beginAnew);
          await delay(LISTEN_EVERY_MS, undefined, { signal }).catch(() => {});
        }
      };
      await Promise.all([queue.run(signal), sweeping(), listening()]);
    },
  };
}

/** Returns the session of a LiveSession; undefined for one that a person made. */
function nameOf({ metadata: { name }, spec }: LiveSession): string | undefined {
  return name !== undefined && spec.account && isSessionId(name) ? name : undefined;
}

function hasEnded({ status }: LiveSession): boolean {
  return status?.phase === 'Ended';
}

function reasonOf({ status }: LiveSession): string | undefined {
  return isEndReason(status?.reason) ? status.reason : undefined;
}
