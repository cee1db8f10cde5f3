import { openSql, runScript } from '@semblance/control-plane/storage/sql';

/**
 * Has a database take the time from a clock that a test sets, wherever a statement asks for it: `now()` and
 * `clock_timestamp()` of connections made from now on stand still at this moment until it is set. What the machine takes
 * for a test is no time by it. To be called before the first statement on a migrated database.
 */
export async function settableClock(url: string) {
  const sql = openSql({ url, maxConnections: 1, settings: {}, deadlineMs: 0 });
  const name = new URL(url).pathname.slice(1);
  await sql.begin((transaction) =>
    runScript(
      transaction,
      `create schema clock;
      create table clock.set_to (at timestamptz not null);
      insert into clock.set_to values (date_trunc('second', pg_catalog.now()));
      create function clock.now() returns timestamptz language sql stable as $$ select at from clock.set_to $$;
      create function clock.clock_timestamp() returns timestamptz language sql volatile as
        $$ select at from clock.set_to $$;
      -- Found before those of the system, which come first only where a path does not name them.
      alter database "${name}" set search_path = clock, public, pg_catalog;
      set local search_path = clock, public, pg_catalog;
      alter table sessions alter column asked_at set default clock_timestamp();`,
    ),
  );
  return {
    /** Moves it, back too. */
    async set(bySeconds: number): Promise<void> {
      await sql`update clock.set_to set at = at + ${bySeconds}::float8 * interval '1 second'`;
    },
    close: () => sql.end(),
  };
}

export type SettableClock = Awaited<ReturnType<typeof settableClock>>;
