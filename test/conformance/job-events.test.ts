import type { JobRecord } from '@semblance/testkit/stack/api';
import { eventually } from '@semblance/testkit/stack/eventually';
import { expectError } from '@semblance/testkit/stack/expect-error';
import { follow as followBy, type JobEvent, statusesOf } from '@semblance/testkit/stack/follow';
import { ADMIRAL, ASTRONAUT, faceless, largePortrait } from '@semblance/testkit/stack/media';
import { type Account, type Stack, sharedStack } from '@semblance/testkit/stack/stack';
import { beforeAll, describe, expect, test } from 'vitest';

let stack: Stack;
let account: Account;

beforeAll(async () => {
  stack = await sharedStack();
  account = await stack.newAccount();
}, 240_000);

const follow = (path: string, headers?: Record<string, string>) => followBy(account.api, path, headers);

async function submit(image = ASTRONAUT, face = ADMIRAL): Promise<string> {
  const [image_key, face_key] = await Promise.all([account.api.upload(image), account.api.upload(face)]);
  return (await account.api.swap({ image_key, face_key })).id;
}

describe('GET /jobs/{job_id}/events', () => {
  test('the life of a job, each status once and in order, ended by the record that GET answers', async () => {
    const id = await submit(await largePortrait(1600));
    const { events, ended, headers, status } = await follow(`/jobs/${id}/events`);
    expect(status).toBe(200);
    expect(headers.get('content-type')).toMatch(/^text\/event-stream/);
    expect(headers.get('cache-control')).toBe('no-store');
    expect(headers.get('x-accel-buffering')).toBe('no');
    expect(headers.get('ratelimit-limit')).toBeTruthy();
    await ended;
    const told = statusesOf(events);
    expect(['queued,processing,succeeded', 'processing,succeeded', 'succeeded']).toContain(told.join());
    expect(events.at(-1)?.data).toEqual(await account.api.job(id));
    expect(new Set(events.map((event) => event.id)).size, 'no id twice').toBe(events.length);
    const progress = events
      .filter(({ event }) => event === 'progress')
      .map(({ data }) => data.progress as number);
    expect(progress).toEqual([...progress].sort((a, b) => a - b));
    for (const share of progress) expect(share >= 0 && share <= 1).toBe(true);
    for (const { event, data } of events) {
      if (event === 'progress')
        expect(data.eta_seconds).toSatisfy((left) => left === null || Number(left) >= 0);
    }
  });

  test('a job that failed', async () => {
    const id = await submit(await faceless());
    const { events, ended } = await follow(`/jobs/${id}/events`);
    await ended;
    expect(events.at(-1)?.data).toMatchObject({ status: 'failed', charged_usd: 0 });
  });

  test('one that has ended answers its last status at once; who knows it gets 204', async () => {
    const id = await submit();
    const record: JobRecord = await account.api.finished(id);
    const first = await follow(`/jobs/${id}/events`);
    await first.ended;
    expect(first.events.map(({ event }) => event)).toEqual(['status']);
    expect({ ...first.events[0]?.data, output_url: '' }).toEqual({ ...record, output_url: '' });
    const again = await follow(`/jobs/${id}/events`, { 'last-event-id': first.events[0]?.id ?? '' });
    expect(again.status).toBe(204);
  });

  test('broken off at every event and resumed, it tells what one stream would have', async () => {
    const id = await submit(await largePortrait(1600));
    const heard: JobEvent[] = [];
    await eventually('the last status', async () => {
      const last = heard.at(-1)?.id;
      const part = await follow(`/jobs/${id}/events`, last ? { 'last-event-id': last } : {});
      await Promise.race([part.ended, eventually('an event', () => part.events[0], { everyMs: 5 })]);
      part.leave();
      heard.push(...part.events.slice(0, 1));
      const status = statusesOf(heard).at(-1);
      return status === 'succeeded' || status === 'failed' ? true : undefined;
    });
    expect(['queued,processing,succeeded', 'processing,succeeded', 'succeeded']).toContain(
      statusesOf(heard).join(),
    );
    expect(new Set(heard.map((event) => event.id)).size).toBe(heard.length);
  });

  test('a job that waits: its place and why', async () => {
    const id = await submit(await largePortrait(2000));
    await stack.kubectl.patch('renderjob', id, { spec: { suspend: true } }).catch(() => {});
    const { events, leave, ended } = await follow(`/jobs/${id}/events`);
    // The job may end before the test can suspend it.
    await Promise.race([ended, eventually('a place', () => events.find(({ event }) => event === 'queue'))]);
    const place = events.find(({ event }) => event === 'queue');
    if (place) {
      expect(Object.keys(place.data)).toEqual(['position', 'of', 'reason']);
      expect(['busy', 'no_agent', 'retrying', 'suspended', null]).toContain(place.data.reason);
    } else expect(statusesOf(events).at(-1)).toBe('succeeded');
    leave();
    await stack.kubectl.patch('renderjob', id, { spec: { suspend: false } });
    await account.api.finished(id);
  });

  test('unknown, of another account, without a key: refused before any stream, in the envelope', async () => {
    const id = await submit();
    const stranger = await stack.newAccount();
    expectError(await stranger.api.get(`/jobs/${id}/events`), 'not_found');
    expectError(await account.api.get('/jobs/job-00000000000000000000000000/events'), 'not_found');
    expectError(await account.api.get(`/jobs/${id}/events`, { authorization: 'Bearer no' }), 'unauthorized');
    await account.api.finished(id);
  });

  test('a key that has sent too much is told so before any stream', async () => {
    const { api } = await stack.newAccount({ perMinute: 1 });
    await api.get('/balance');
    const answer = await api.get('/jobs/job-00000000000000000000000000/events');
    expectError(answer, 'rate_limited');
    expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0);
  });

  test('counts as one request, whatever it tells', async () => {
    // The minute of this new key has just begun, so no other minute begins during the test.
    const { api } = await stack.newAccount();
    const key = await api.upload(await faceless());
    const { id } = await api.swap({ image_key: key, face_key: key });
    const { headers, ended } = await followBy(api, `/jobs/${id}/events`);
    await ended;
    const next = await api.get('/balance');
    const remaining = (from: Headers) => Number(from.get('ratelimit-remaining'));
    expect(remaining(headers) - remaining(next.headers)).toBe(1);
  });
});
