import { silentLogger } from '@semblance/common/logging';
import type { RenderJob } from '@semblance/crds/gen/renderjobs';
import type { ObjectStore } from '@semblance/objects/store';
import { type TestDatabase, testDatabase } from '@semblance/testkit/control-plane/storage';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createSettler } from '../jobs/settle.ts';

type Capability = RenderJob['spec']['capability'];

let db: TestDatabase;
beforeAll(async () => {
  db = await testDatabase();
  await db.sql`update capabilities set has_engine = true`;
});
afterAll(() => db.close());

const objects = { info: async () => ({ sizeBytes: 1, contentType: 'video/mp4' }) } as unknown as ObjectStore;

async function submit(
  capability: Capability,
  parameters: Record<string, string>,
  account: Awaited<ReturnType<TestDatabase['account']>>,
) {
  const { image, video, audio } = account.files;
  const inputs: Partial<Record<Capability, Record<string, string>>> = {
    'face-swap': { video, face: image },
    'character-swap': { video, character: image },
    'motion-control': { image, motion_video: video },
    avatar: { image },
    'lip-sync': { video, audio },
  };
  const { jobId } = await db.submitter()(
    account.submission({ capability, parameters, inputs: inputs[capability] ?? {} }),
  );
  return jobId;
}

/** Settles a job with ten seconds of frames of this size; without one, as by an agent that does not measure it. */
async function settle(jobId: string, capability: Capability, size?: readonly [number, number]) {
  const settler = createSettler({
    database: db.database,
    objects,
    logger: silentLogger(),
    onSettled: () => {},
  });
  const output = {
    key: 'api/out',
    contentType: 'video/mp4',
    sizeBytes: 1,
    unit: 'second',
    milliUnits: 10_000,
  } as const;
  const outcome = await settler.settleFrom({
    apiVersion: 'semblance.dev/v1alpha1',
    kind: 'RenderJob',
    metadata: { name: jobId, uid: 'uid-1' },
    spec: { capability, inputs: [] },
    status: { phase: 'Succeeded', output: { ...output, ...(size && { width: size[0], height: size[1] }) } },
  });
  expect(outcome).toBe('settled');
}

/** Returns hold and charge of ten seconds in micro-dollars. */
async function priced(
  capability: Capability,
  parameters: Record<string, string>,
  size?: readonly [number, number],
  before: (accountId: string) => Promise<unknown> = async () => {},
): Promise<{ hold: bigint; charge: bigint }> {
  const account = await db.account(100);
  await before(account.accountId);
  const jobId = await submit(capability, parameters, account);
  await settle(jobId, capability, size);
  const [row] = await db.sql<{ hold: bigint; charge: bigint; spent: bigint }[]>`
    select j.hold_micros as hold, j.charged_micros as charge, b.spent_micros as spent
    from jobs j join account_balances b using (account_id) where j.id = ${jobId}`;
  expect(row?.spent).toBe(row?.charge);
  expect(await db.faults(account.accountId)).toEqual([]);
  return { hold: row?.hold ?? 0n, charge: row?.charge ?? 0n };
}

const p = (side: number) => ({ output_resolution_p: String(side) });

describe('a price follows the output', () => {
  // Ten seconds at the public rates: 0.015, 0.025 and 0.04 USD a second.
  test.each(['face-swap', 'lip-sync'] as const)('of %s, by its shorter side', async (capability) => {
    const cases: [Record<string, string>, [number, number], bigint][] = [
      [{}, [320, 400], 150_000n],
      [p(480), [320, 400], 150_000n],
      [p(1080), [320, 400], 150_000n],
      [{}, [638, 478], 150_000n],
      [{}, [640, 479], 150_000n],
      [{}, [640, 480], 150_000n],
      [{}, [640, 481], 250_000n],
      [{}, [481, 640], 250_000n],
      [{}, [480, 4_096], 150_000n],
      [{}, [1_280, 719], 250_000n],
      [{}, [720, 1_280], 250_000n],
      [{}, [1_282, 721], 400_000n],
      [{}, [1_920, 1_080], 400_000n],
      [{}, [2_048, 1_080], 400_000n],
      [p(1080), [2_048, 1_080], 400_000n],
      [{}, [3_840, 2_160], 400_000n],
      [{}, [2, 2], 150_000n],
    ];
    for (const [parameters, size, charge] of cases)
      expect((await priced(capability, parameters, size)).charge, JSON.stringify([parameters, size])).toBe(
        charge,
      );
  });

  // 0.02, 0.03 and 0.05 USD a second; the minimum is 0.20 USD.
  test.each([
    [{}, [480, 640], 200_000n],
    [{}, [720, 720], 300_000n],
    [p(720), [600, 481], 300_000n],
    [p(1080), [1_080, 1_920], 500_000n],
    [p(1080), [720, 1_280], 300_000n],
  ] as [Record<string, string>, [number, number], bigint][])(
    'of avatar, %j as %j',
    async (parameters, size, charge) => {
      expect((await priced('avatar', { script: 'Hello', ...parameters }, size)).charge).toBe(charge);
    },
  );

  // 0.08 and 0.16 USD a second; the minimum is 0.40 USD.
  test.each([
    ['1k', [1_024, 576], 800_000n],
    ['2k', [1_024, 576], 800_000n],
    ['2k', [576, 1_024], 800_000n],
    ['2k', [1_026, 576], 1_600_000n],
    ['2k', [2_048, 2_048], 1_600_000n],
  ] as [string, [number, number], bigint][])(
    'of character-swap by its longer side, %s as %j',
    async (resolution, size, charge) => {
      expect((await priced('character-swap', { resolution }, size)).charge).toBe(charge);
    },
  );

  test('of motion-control at its one rate', async () => {
    expect(await priced('motion-control', {}, [1_920, 1_080])).toEqual({
      hold: 3_600_000n,
      charge: 600_000n,
    });
  });
});

test.each([
  ['face-swap', {}, 2_400_000n],
  ['face-swap', p(480), 900_000n],
  ['face-swap', p(720), 1_500_000n],
  ['face-swap', p(1080), 2_400_000n],
  ['lip-sync', {}, 2_400_000n],
  // Avatar makes 720 lines where none are asked for.
  ['avatar', { script: 'Hello' }, 3_600_000n],
  ['avatar', { script: 'Hello', ...p(1080) }, 6_000_000n],
  ['character-swap', { resolution: '1k' }, 4_800_000n],
  ['character-swap', { resolution: '2k' }, 9_600_000n],
] as [Capability, Record<string, string>, bigint][])(
  'a hold is by the largest output that is possible: %s, %j',
  async (capability, parameters, hold) => {
    expect((await priced(capability, parameters, [64, 64])).hold).toBe(hold);
  },
);

test('an engine that makes more than was asked for is paid for what was asked for', async () => {
  expect((await priced('face-swap', p(480), [1_920, 1_080])).charge).toBe(150_000n);
  expect((await priced('character-swap', { resolution: '1k' }, [2_048, 1_152])).charge).toBe(800_000n);
});

test('an agent that does not measure sizes is paid by what was asked for', async () => {
  expect((await priced('face-swap', p(480))).charge).toBe(150_000n);
  expect((await priced('face-swap', p(1080))).charge).toBe(400_000n);
  expect((await priced('face-swap', {})).charge).toBe(250_000n);
});

test('a hold covers the dearest size that is possible, also where a smaller one is dearer', async () => {
  const rates = [
    { when: { output_resolution_p: '480' }, rate_micros: 90_000 },
    { when: {}, rate_micros: 10_000 },
  ];
  const own = (accountId: string) => db.sql`
    insert into rates (capability, account_id, unit, minimum_micros, hold_milli_units, rates)
    values ('face-swap', ${accountId}, 'second', 0, 60000, ${db.sql.json(rates)}::jsonb)`;
  expect(await priced('face-swap', {}, [1_920, 1_080], own)).toEqual({ hold: 5_400_000n, charge: 100_000n });
  expect(await priced('face-swap', p(1080), [320, 240], own)).toEqual({ hold: 5_400_000n, charge: 900_000n });
});

test('a job quoted by the size it asked for never pays more, though its output is larger', async () => {
  const account = await db.account(100);
  const jobId = await submit('face-swap', {}, account);
  // As the function before left it.
  await db.sql`update jobs set rate_micros = 25000 where id = ${jobId}`;
  await settle(jobId, 'face-swap', [1_920, 1_080]);
  const [row] =
    await db.sql`select charged_micros, charged_rate_micros, output_width, output_height from jobs where id = ${jobId}`;
  expect(row).toEqual({
    charged_micros: 250_000n,
    charged_rate_micros: 25_000n,
    output_width: 1_920,
    output_height: 1_080,
  });
});
