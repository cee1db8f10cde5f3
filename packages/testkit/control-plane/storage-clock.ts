import { openSql, runScript } from '@semblance/control-plane/storage/sql';

/**
 * Replaces the clock of a database by one that the test sets. `now()` and `clock_timestamp()` of later connections
 * stand still until the clock is moved, so the duration of the test does not count. Call it before the first
 * statement on a migrated database.
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
    /** Moves the clock; a negative value moves it back. */
    async set(bySeconds: number): Promise<void> {
      await sql`update clock.set_to set at = at + ${bySeconds}::float8 * interval '1 second'`;
    },
    close: () => sql.end(),
  };
}

export type SettableClock = Awaited<ReturnType<typeof settableClock>>;
