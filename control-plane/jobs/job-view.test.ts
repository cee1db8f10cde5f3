import { jobRecord } from '@semblance/common/job-record';
import type { ObjectStore } from '@semblance/objects/store';
import { expect, test } from 'vitest';
import { windowStart } from '../media/signed-links.ts';
import type { JobRow } from './job-row.ts';
import { isJobId } from './job-row.ts';
import { createJobView } from './job-view.ts';

const settledAt = new Date('2026-05-01T10:00:00.789Z');
const DAY = 86_400;
const at = (seconds: number) => Date.parse('2026-05-01T10:00:00Z') + seconds * 1000;

test('a link dates from the latest half lifetime after the end of the job', () => {
  const start = (seconds: number) => (windowStart(settledAt, DAY, at(seconds)).getTime() - at(0)) / 1000;
  expect([0, 1, DAY / 2 - 1, DAY / 2, DAY, 10 * DAY + 5].map(start)).toEqual([
    0,
    0,
    0,
    DAY / 2,
    DAY,
    10 * DAY,
  ]);
  // A database clock ahead of this process must not date a link into the future.
  expect(start(-30)).toBe(0);
});

test('the same link comes back within a window, is signed once, and is good for half its lifetime at least', async () => {
  const signed: { expiresAt: number }[] = [];
  const objects = {
    async signGet(key, { signedAt = new Date(), expiresInSeconds, filename }) {
      expect(filename).toBe('face-swap-job-1.mp4');
      const expiresAt = signedAt.getTime() + expiresInSeconds * 1000;
      signed.push({ expiresAt });
      return `https://files/${key}?until=${expiresAt}`;
    },
  } as ObjectStore;
  let now = at(0);
  const view = createJobView({ objects, now: () => now });
  const row: JobRow = {
    id: 'job-1',
    capability: 'face-swap',
    status: 'succeeded',
    outputKey: 'out/o/1.mp4',
    chargedMicros: 1n,
    errorCode: null,
    errorMessage: null,
    settledAt,
    findings: null,
    metadata: null,
    outputExpiresAt: null,
    previewKey: null,
    keyId: null,
  };
  const links = new Set<string | undefined>();
  for (let seconds = 0; seconds <= DAY; seconds += DAY / 8) {
    now = at(seconds);
    links.add((await view.show(row, DAY)).outputUrl);
    expect((signed.at(-1)?.expiresAt ?? 0) - now).toBeGreaterThanOrEqual((DAY / 2) * 1000);
  }
  expect(links.size).toBe(3);
  expect(signed).toHaveLength(3);
});

test('no link outlives the output, and an output that has expired is not shown, before it is deleted', async () => {
  const until = new Date(at(100) + 700);
  const ends: number[] = [];
  const objects = {
    async signGet(_key, { signedAt = new Date(), expiresInSeconds }) {
      ends.push(signedAt.getTime() + expiresInSeconds * 1000);
      return 'https://files/x';
    },
  } as ObjectStore;
  let now = at(1);
  const view = createJobView({ objects, now: () => now });
  const row: JobRow = {
    ...{ ...FAILED, status: 'succeeded', errorCode: null, errorMessage: null, settledAt },
    outputKey: 'out/o/1.mp4',
    outputExpiresAt: until,
  };
  expect(await view.show(row, DAY)).toMatchObject({
    outputUrl: 'https://files/x',
    expiresAt: until.toISOString(),
  });
  now = at(99);
  await view.show(row, 20);
  expect(ends).toEqual([at(100), at(100)]);
  now = until.getTime() - 999;
  const after = jobRecord(await view.show(row, DAY));
  expect(after).toMatchObject({ status: 'succeeded', output_url: null });
  expect(after).not.toHaveProperty('expires_at');
});

const FAILED: JobRow = {
  id: 'job-1',
  capability: 'face-swap',
  status: 'failed',
  outputKey: null,
  chargedMicros: 0n,
  errorCode: 'face_not_detected',
  errorMessage: 'No face.',
  settledAt: new Date(0),
  findings: null,
  metadata: null,
  outputExpiresAt: null,
  previewKey: null,
  keyId: null,
};

test("the record names the owner's models, and has no empty list of them", async () => {
  const view = createJobView({ objects: {} as ObjectStore });
  const detailsWith = async (more: object) => {
    const findings = { hints: [], ...more };
    const row = { ...FAILED, findings };
    return jobRecord(await view.show(row, DAY)).details;
  };
  const models = [{ name: 'swapper-a', sha256: 'ab'.repeat(32), licence: 'MIT' }];
  expect(await detailsWith({ models })).toEqual({ hints: [], models });
  expect(await detailsWith({})).toEqual({ hints: [] });
});

test('ids that cannot be a job’s are told from those that can', () => {
  expect(isJobId('job-01j9zzzzzzzzzzzzzzzzzzzzzz')).toBe(true);
  for (const no of [
    '',
    'job-',
    'job-01J9ZZZZZZZZZZZZZZZZZZZZZZ',
    'job-01j9zzzzzzzzzzzzzzzzzzzzz\0',
    "job-' or true --xxxxxxxxxxxxxxxx",
    '01j9zzzzzzzzzzzzzzzzzzzzzz',
  ])
    expect(isJobId(no)).toBe(false);
});
