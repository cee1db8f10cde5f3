import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { CreateBucketCommand, S3Client } from '@aws-sdk/client-s3';
import { describeError } from '@semblance/common/errors';
import { silentLogger } from '@semblance/common/logging';
import { S3_CREDENTIALS, startS3Server } from '@semblance/testkit/objects/s3-server';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { type OpenedObjectStore, openObjectStore } from './open.ts';
import { describeS3Fault } from './s3-faults.ts';
import { checkAtStart } from './start-check.ts';

/** The first run on a machine builds the server. */
const START_MS = 600_000;
let server: Awaited<ReturnType<typeof startS3Server>>;
beforeAll(async () => {
  server = await startS3Server();
}, START_MS);
afterAll(() => server.stop());

const stores: OpenedObjectStore[] = [];
afterEach(async () => {
  for (const store of stores.splice(0)) await store.close();
});

function open(bucket: string, credentials = S3_CREDENTIALS, endpoint = server.endpoint): OpenedObjectStore {
  process.env.AWS_ACCESS_KEY_ID = credentials.accessKeyId;
  process.env.AWS_SECRET_ACCESS_KEY = credentials.secretAccessKey;
  const at = `endpoint=${encodeURIComponent(endpoint)}&forcePathStyle=true`;
  const store = openObjectStore({ url: `s3://${bucket}?${at}`, publicUrl: 'http://unused.test' });
  stores.push(store);
  return store;
}
const faultOf = (store: OpenedObjectStore) =>
  store.check?.(new AbortController().signal, 20_000).then(
    () => 'none',
    (error: Error & { refused?: boolean }) => `${error.refused ? 'refused: ' : ''}${error.message}`,
  );

test('a bucket that is not there is named, and what waits for it goes on when it is', async () => {
  const store = open('absent');
  expect(await faultOf(store)).toBe(`S3 at ${server.endpoint} has no bucket "absent"`);
  const check = checkAtStart(store, silentLogger(), { everyMs: 20 });
  await expect.poll(() => said(check)).toContain('no bucket "absent"');
  const client = new S3Client({ region: 'us-east-1', endpoint: server.endpoint, forcePathStyle: true });
  await client.send(new CreateBucketCommand({ Bucket: 'absent' }));
  client.destroy();
  await expect.poll(() => said(check)).toBe('ready');
  check.close();
});

test.each([
  ['a key id that the server does not know', { ...S3_CREDENTIALS, accessKeyId: 'nobody' }],
  ['a secret that is wrong', { ...S3_CREDENTIALS, secretAccessKey: 'wrong' }],
])('%s is refused, in the words of the server', async (_what, credentials) => {
  const store = open('absent', credentials);
  expect(await faultOf(store)).toMatch(/^refused: S3 at http.* refuses the credentials \(\w+: .+\)$/);
});

test('a server that is away is named', async () => {
  const store = open('absent', S3_CREDENTIALS, 'http://127.0.0.1:1');
  expect(await faultOf(store)).toBe('S3 at http://127.0.0.1:1 cannot be reached');
});

test('a server that does not answer is named, with how long it was waited for', async () => {
  const silent = createServer(() => {});
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
  const endpoint = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`;
  const failure = await open('absent', S3_CREDENTIALS, endpoint)
    .check?.(new AbortController().signal, 50)
    .catch(describeError);
  expect(failure).toBe(`S3 at ${endpoint} cannot be reached: no answer within 50 ms`);
  silent.closeAllConnections();
  silent.close();
});

test.each([
  ['PermanentRedirect', 301, 'is not in the region us-east-1 (PermanentRedirect: m)'],
  ['AccessDenied', 403, 'does not let these credentials list the bucket "b" (AccessDenied: m)'],
  ['SlowDown', 503, 'answers with status 503 (SlowDown: m)'],
])('%s of AWS is told apart', (name, httpStatusCode, text) => {
  const error = Object.assign(new Error('m'), { name, $metadata: { httpStatusCode } });
  const fault = describeS3Fault(error, { bucket: 'b', region: 'us-east-1' });
  expect(fault.message).toContain(text);
  expect(fault.refused).toBe(false);
});

test('a store that is no other server is not waited for', () => {
  const store = openObjectStore({
    url: 'http://gateway:8080',
    signingKey: Buffer.alloc(16),
    publicUrl: 'http://unused.test',
  });
  expect(checkAtStart(store, silentLogger()).ready).toEqual({});
});

function said({ ready }: ReturnType<typeof checkAtStart>): string {
  try {
    ready.objects?.();
    return 'ready';
  } catch (error) {
    return (error as Error).message;
  }
}
