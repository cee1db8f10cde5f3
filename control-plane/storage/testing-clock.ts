import { openSql, runScript } from './sql.ts';

/**
 * Has a database take the time from a clock that a test sets, wherever a statement asks for it: `now()` and
 * `clock_timestamp()` of connections made from now on are those of the machine and what it was set by. To be called before
 * the first statement on a migrated database.
 */
export async function settableClock(url: string) {
  const sql = openSql({ url, maxConnections: 1, settings: {}, deadlineMs: 0 });
  const name = new URL(url).pathname.slice(1);
  await sql.begin((transaction) =>
    runScript(
      transaction,
      `create schema clock;
      create table clock.set_by (seconds float8 not null);
      insert into clock.set_by values (0);
      create function clock.now() returns timestamptz language sql stable as
        $$ select pg_catalog.now() + seconds * interval '1 second' from clock.set_by $$;
      create function clock.clock_timestamp() returns timestamptz language sql volatile as
        $$ select pg_catalog.clock_timestamp() + seconds * interval '1 second' from clock.set_by $$;
      -- Found before those of the system, which come first only where a path does not name them.
      alter database "${name}" set search_path = clock, public, pg_catalog;
      set local search_path = clock, public, pg_catalog;
      alter table sessions alter column asked_at set default clock_timestamp();`,
    ),
  );
  return {
    /** Moves it, back too. */
    async set(bySeconds: number): Promise<void> {
      await sql`update clock.set_by set seconds = seconds + ${bySeconds}`;
    },
    close: () => sql.end(),
  };
}

export type SettableClock = Awaited<ReturnType<typeof settableClock>>;
