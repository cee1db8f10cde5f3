import { Registry } from 'prom-client';
import { expect, it } from 'vitest';
import type { Database } from './storage/database.ts';
import { storedFigures } from './stored-figures.ts';

const ROW = {
  held: 5n,
  reserved: 7n,
  queued: 1,
  processing: 2,
  renderjobs: 3,
  events: 4,
  owed_since: 6,
  webhooks: 8,
  webhooks_late: 9,
  removals: 10,
  faults: 0,
  below_zero: 0,
  opening: 0,
  open: 0,
  connected: 0,
};

it('each scrape tells what was read for it, with one read, and nothing that could not be read', async () => {
  const answers = [
    [{ ...ROW, audited_at: 1_000 }],
    [{ ...ROW, held: 6n, audited_at: null }],
    [],
    [{ ...ROW, audited_at: 2_000 }],
  ];
  let reads = 0;
  const fast = async () => answers[reads++] ?? [];
  const registry = new Registry();
  storedFigures([registry], { fast } as unknown as Database);
  const scrape = async () =>
    Object.fromEntries(
      (await registry.metrics())
        .split('\n')
        .filter((line) => line !== '' && !line.startsWith('#'))
        .map((line) => line.split(' ')),
    );
  expect(await scrape()).toMatchObject({
    semblance_ledger_audited_timestamp_seconds: '1000',
    semblance_money_held_micros: '5',
    semblance_outbox_oldest_seconds: '6',
    'semblance_jobs_in_flight{status="processing"}': '2',
  });
  const second = await scrape();
  expect(second.semblance_money_held_micros).toBe('6');
  expect(second).not.toHaveProperty('semblance_ledger_audited_timestamp_seconds');
  expect(await scrape()).toEqual({});
  expect((await scrape()).semblance_ledger_audited_timestamp_seconds).toBe('2000');
  expect(reads).toBe(4);
});
