import {
  connectTo,
  makeAccount,
  photoSwap,
  startTestSystem,
  type TestSystem,
  upload,
} from '@semblance/testkit/control-plane/control-plane';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';

const PRIVATE = 'inside.example.com';
const PUBLIC = 'outside.example.com';

let system: TestSystem;
let asked: string[];
beforeAll(async () => {
  system = await startTestSystem({ webhooks: { lookup: lookupOf({ [PRIVATE]: '10.0.0.1' }) } });
});
beforeEach(() => {
  asked = [];
});
afterAll(() => system.close());

function lookupOf(addresses: Readonly<Record<string, string>>) {
  return async (hostname: string) => {
    asked.push(hostname);
    return [addresses[hostname] ?? '93.184.216.34'];
  };
}

async function account() {
  const { accountId, caller } = await makeAccount(system);
  const { fileKey } = await upload(system, caller);
  const submission = (host: string, idempotencyKey?: string) => ({
    ...photoSwap(caller, fileKey, fileKey, idempotencyKey),
    callbackUrl: `https://${host}/hook`,
  });
  return { accountId, caller, submission };
}

const jobsOf = async (accountId: string) =>
  (await system.database.sql`select 1 from jobs where account_id = ${accountId}`).length;

test('a submit whose callback no webhook would reach is invalid_input, and so is its estimate', async () => {
  const { control, ask } = system.client;
  const { accountId, submission } = await account();
  for (const host of [PRIVATE, '10.0.0.1', 'localhost', 'postgres.default.svc.cluster.local']) {
    const refused = { code: 'invalid_input', message: '`callback_url` has a host without a public address.' };
    await expect(ask(control.submitJob.bind(control), submission(host))).rejects.toMatchObject(refused);
    const estimate = { ...submission(host), inspect: false };
    await expect(ask(control.estimateJob.bind(control), estimate)).rejects.toMatchObject(refused);
  }
  expect(await jobsOf(accountId)).toBe(0);
  await ask(control.submitJob.bind(control), submission(PUBLIC));
  expect(await jobsOf(accountId)).toBe(1);
});

test('a retry gets the job of its first submit, wherever the name has moved since', async () => {
  const { control, ask } = system.client;
  const { submission } = await account();
  const first = await ask(control.submitJob.bind(control), submission(PUBLIC, 'k'));
  const later = await system.startPlane({ webhooks: { lookup: lookupOf({ [PUBLIC]: '10.0.0.1' }) } });
  const client = connectTo(later.port, system.adminToken);
  const submitLater = (key: string) =>
    client.ask(client.control.submitJob.bind(client.control), submission(PUBLIC, key));
  expect(await submitLater('k')).toEqual({ ...first, replayed: true });
  await expect(submitLater('other')).rejects.toMatchObject({ code: 'invalid_input' });
  client.control.close();
  client.admin.close();
});

test('submits that come together wait for no name server', async () => {
  const { accountId, submission } = await account();
  const stream = system.client.control.submitJobs();
  const answered = new Promise<unknown[]>((resolve, reject) => {
    stream.on('data', ({ results }) => resolve(results));
    stream.on('error', reject);
  });
  const requests = [submission(PRIVATE), submission('10.0.0.1')];
  stream.write({
    number: 1,
    requests: requests.map((request) => ({ ...request, requestId: '' })),
    requestId: '',
  });
  expect(await answered).toMatchObject([
    { outcome: { $case: 'submitted' } },
    { outcome: { $case: 'refusal', value: { code: 'invalid_input' } } },
  ]);
  stream.end();
  expect([await jobsOf(accountId), asked]).toEqual([1, []]);
});
