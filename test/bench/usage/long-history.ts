import postgres from 'postgres';
import { type BenchContext, figure, quantile, type Row, type Section } from '../lib/section.ts';

const CALLS = 1_000_000;
const DAYS = 365;
const SAMPLES = 40;

/**
 * Measures usage reads of an account with a long history: a million calls over a year, behind the whole stack. The
 * rows are written without the triggers; one statement sums up their counters.
 */
export async function runLongHistoryBench({ stack, say }: BenchContext): Promise<Section> {
  const { api, accountId } = await stack.newAccount({ balanceUsd: 1 });
  const sql = postgres(stack.read().postgres_url, { max: 1, onnotice: () => {} });
  const rows: Row[] = [];
  try {
    say(`usage: writing ${CALLS.toLocaleString('en')} calls`);
    await sql.begin(async (tx) => {
      await tx`set local session_replication_role = 'replica'`;
      await tx`
        insert into jobs (id, account_id, capability, inputs, parameters, status, created_at, settled_at, hold_id,
                          hold_micros, rate_version, unit, rate_micros, minimum_micros, charged_micros, milli_units,
                          output_key, error_code, error_message, reason)
        select 'bench-' || n, ${accountId}, case n % 3 when 0 then 'face-swap' else 'face-swap-image' end,
               '{"image": "api/a", "face": "api/b"}', '{}', case when n % 10 = 0 then 'failed' else 'succeeded' end,
               at, at + interval '5 seconds', -n, 60000, 1, 'image', 40000, 40000,
               case when n % 10 = 0 then 0 else 40000 end, 1000, case when n % 10 > 0 then 'out/x' end,
               case when n % 10 = 0 then 'processing_failed' end, case when n % 10 = 0 then 'It failed.' end,
               case when n % 10 = 0 then 'render_failed' end
        from generate_series(1, ${CALLS}::int) n,
             lateral (select now() - ${DAYS}::int * interval '1 day' * (1 - n::float8 / ${CALLS}::int) as at) q`;
      await tx`
        insert into usage_hours (account_id, hour, capability, succeeded, failed, spent_micros)
        select account_id, usage_hour(created_at), capability, count(*) filter (where status = 'succeeded'),
               count(*) filter (where status = 'failed'), sum(charged_micros)
        from jobs where account_id = ${accountId} and settled_at is not null group by 1, 2, 3`;
    });
    await sql`vacuum analyze jobs`;
    await sql`vacuum analyze usage_hours`;

    const timed = async (name: string, read: () => Promise<unknown>) => {
      const times: number[] = [];
      for (let i = 0; i < SAMPLES + 5; i++) {
        const at = performance.now();
        await read();
        if (i >= 5) times.push(performance.now() - at);
      }
      const ours = `p50 ${figure(quantile(times, 0.5))} ms, p99 ${figure(quantile(times, 0.99))} ms`;
      rows.push({ name, ours, peer: '', ratio: '', goal: '', met: '' });
    };
    const get = (path: string) => async () => {
      const answer = await api.get(path);
      if (answer.status !== 200) throw new Error(`GET ${path}: ${answer.status} ${answer.text}`);
      return answer.body;
    };
    const day = (ago: number) => new Date(Date.now() - ago * 86_400_000).toISOString();
    say('usage: reading');
    const { total_calls } = (await get('/usage/summary')()) as { total_calls: number };
    if (total_calls !== CALLS) throw new Error(`the summary counts ${total_calls} calls`);
    await timed('GET /balance, for comparison', get('/balance'));
    await timed('GET /usage, newest 100', get('/usage'));
    await timed('GET /usage, 500 in the middle', get(`/usage?limit=500&to=${day(DAYS / 2)}`));
    await timed('GET /usage/summary, all', get('/usage/summary'));
    await timed(
      'GET /usage/summary, 200 days, ends within hours',
      get(`/usage/summary?from=${day(250.3)}&to=${day(50.7)}`),
    );
    await timed(
      'the same sums by a query over all calls',
      () =>
        sql`select capability, status, count(*), sum(charged_micros) from jobs where account_id = ${accountId} group by 1, 2`,
    );
  } finally {
    await sql.begin(async (tx) => {
      await tx`set local session_replication_role = 'replica'`;
      await tx`delete from jobs where account_id = ${accountId} and id like 'bench-%'`;
      await tx`delete from usage_hours where account_id = ${accountId}`;
    });
    await sql.end();
  }
  return {
    title: 'Usage of a long history',
    rows,
    notes: [
      `${CALLS.toLocaleString('en')} calls of one account over ${DAYS} days; ${SAMPLES} reads each, one after the other.`,
    ],
  };
}
