import { silentLogger } from '@semblance/common/logging';
import type { WatchJobsResponse, WatchOpen } from '@semblance/proto/semblance/control/v1/control';
import {
  makeAccount,
  photoSwap,
  startTestSystem,
  type TestSystem,
  untilTrue,
  upload,
} from '@semblance/testkit/control-plane/control-plane';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createKeyChecks } from './key-checks.ts';

let system: TestSystem;
beforeAll(async () => {
  system = await startTestSystem();
});
afterAll(() => system.close());

test('a watch ends when its key is revoked, however it was opened, and those of other keys go on', async () => {
  const { caller, accountId, keyId } = await makeAccount(system);
  const { control, ask, admin, asAdmin } = system.client;
  const { fileKey } = await upload(system, caller);
  const { id: jobId } = await ask(control.submitJob.bind(control), photoSwap(caller, fileKey));
  const other = await asAdmin(admin.createKey.bind(admin), { accountId });

  const stream = control.watchJobs();
  const heard: WatchJobsResponse[] = [];
  stream.on('data', (response: WatchJobsResponse) => heard.push(response));
  const open = (ask: Partial<WatchOpen> & { watch: number }) =>
    stream.write({
      request: {
        $case: 'open',
        value: { jobId, caller: undefined, accountId: '', keyId: '', requestId: 'r', ...ask },
      },
    });
  const refusals = () =>
    heard.flatMap(({ watch, event }) =>
      event?.$case === 'refused' ? [`${watch} ${event.value.refusal?.code}`] : [],
    );
  open({ watch: 1, caller });
  open({ watch: 2, accountId, keyId });
  open({ watch: 3, accountId, keyId: other.keyId });
  const states = () =>
    new Set(heard.flatMap(({ watch, event }) => (event?.$case === 'state' ? [watch] : [])));
  await untilTrue(() => states().size === 3, 'the present state of each');

  await asAdmin(admin.revokeKey.bind(admin), { keyId });
  await untilTrue(() => refusals().length === 2, 'the ends');
  expect(refusals().sort()).toEqual(['1 unauthorized', '2 unauthorized']);
  // Opened again by the gateway of a stream that broke meanwhile.
  open({ watch: 4, accountId, keyId });
  await untilTrue(() => refusals().includes('4 unauthorized'), 'the end of the one that is opened late');
  expect(refusals()).toHaveLength(3);
  stream.end();
});

test('all keys are one look; nobody is told twice, and a database that is away ends nothing', async () => {
  const looks: string[][] = [];
  let away = true;
  const keys = createKeyChecks({
    async usable(asked) {
      looks.push([...asked]);
      if (away) throw new Error('the database is away');
      return new Set(asked.filter((key) => key !== 'revoked'));
    },
    logger: silentLogger(),
    everyMs: 5,
  });
  const told: string[] = [];
  const ends = ['good', 'revoked', 'revoked'].map((key, i) => {
    const end = keys.follow(key, () => {
      told.push(`${key} ${i}`);
      end();
    });
    return end;
  });
  await untilTrue(() => looks.length > 2, 'some looks');
  expect(told).toEqual([]);
  away = false;
  await untilTrue(() => told.length === 2, 'the ends');
  const seen = looks.length;
  await untilTrue(() => looks.length > seen + 2, 'more looks');
  expect(told).toEqual(['revoked 1', 'revoked 2']);
  expect(looks.at(0)).toEqual(['good', 'revoked']);
  expect(looks.at(-1)).toEqual(['good']);
  for (const end of ends) end();
  const last = looks.length;
  await new Promise((resolve) => setTimeout(resolve, 30));
  expect(looks.length, 'nobody is left to look after').toBeLessThanOrEqual(last + 1);
});
