import type { ServerResponse } from 'node:http';
import { connect } from 'node:net';
import { newId } from '@semblance/common/ids';
import { startTestGateway, type TestGateway } from '@semblance/testkit/gateway/test-gateway';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { EventStream } from './event-stream.ts';
import { STREAMS_PER_ACCOUNT } from './event-streams.ts';
import { createEventIds, NOTHING } from './job-events.ts';

let t: TestGateway;
beforeAll(async () => {
  t = await startTestGateway({
    eventStreams: { tickMs: 20, pace: { heartbeat: 150, stuck: 4_000, lifetime: 600_000 } },
  });
});
afterAll(() => t.close());
/** Resolves when nobody follows any job, so that the places of those who left are free. */
const left = () => expect.poll(() => t.control.watches.size).toBe(0);
beforeEach(left);

function job(status = 'queued', id = newId('job-')): string {
  const charged = status === 'succeeded' ? 40_000n : undefined;
  const made = { id, status, outputUrl: undefined, chargedMicros: charged, error: undefined };
  t.control.jobs.set(id, made);
  return id;
}

/** Changes the job in the control plane and announces it. */
function becomes(id: string, status: string, more: Parameters<TestGateway['control']['tell']>[1] = {}): void {
  job(status, id);
  t.control.tell(id, { begun: status === 'processing', ...more });
}

const idsIn = (text: string) => [...text.matchAll(/^id: (.*)$/gm)].map((match) => match[1] ?? '');

async function follow(id: string, headers: Record<string, string> = {}, base = t.base) {
  const leaving = new AbortController();
  const { auth } = t;
  const response = await fetch(`${base}/jobs/${id}/events`, {
    headers: { ...auth, ...headers },
    signal: leaving.signal,
  });
  let text = '';
  let ended = false;
  const done = (async () => {
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    for (let part = await reader?.read(); part && !part.done; part = await reader?.read()) text += part.value;
    ended = true;
  })().catch(() => {});
  return {
    response,
    leave: () => leaving.abort(),
    done,
    text: () => text,
    ended: () => ended,
    ids: () => idsIn(text),
    last: () => idsIn(text).at(-1) ?? '',
    /** The ids without their seal. */
    seen: () => idsIn(text).map((id) => id.replace(/\.[^.]*$/, '')),
    names: () => [...text.matchAll(/^event: (.*)$/gm)].map((match) => match[1] ?? ''),
  };
}

describe('GET /jobs/{job_id}/events', () => {
  test('tells the present state at once and every change until the job has ended', async () => {
    const id = job();
    const stream = await follow(id);
    expect(Object.fromEntries(stream.response.headers)).toMatchObject({
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-store',
      'x-accel-buffering': 'no',
      'ratelimit-remaining': '59',
      'request-id': expect.any(String),
    });
    await expect.poll(stream.names).toEqual(['status']);
    expect(stream.text()).toMatch(
      /^retry: [123]\d{3}\n\nid: 1\.0\.0\.\.[\w-]{11}\nevent: status\ndata: \{"id":"job-/,
    );
    t.control.tell(id, { queue: { position: 2, of: 4, reason: 'busy' } });
    await expect.poll(stream.names).toEqual(['status', 'queue']);
    becomes(id, 'processing', { progress: { attempt: 1, percent: 37 } });
    await expect.poll(stream.names).toEqual(['status', 'queue', 'status', 'progress']);
    becomes(id, 'succeeded', { begun: true });
    await stream.done;
    expect(stream.ended()).toBe(true);
    expect(stream.names().at(-1)).toBe('status');
    expect(stream.text()).toMatch(/"charged_usd":0.04,"error":null\}\n\n$/);
  });

  test('a job that has ended: its terminal event, and the stream ends', async () => {
    const stream = await follow(job('succeeded'));
    await stream.done;
    expect(stream.text().match(/^event: .*$/gm)).toEqual(['event: status']);
  });

  test('Last-Event-ID: nothing twice, nothing lost; 204 when all has been told', async () => {
    const id = job();
    const first = await follow(id);
    await expect.poll(first.seen).toEqual(['1.0.0.']);
    first.leave();
    await left();
    becomes(id, 'processing', { progress: { attempt: 1, percent: 10 } });
    const second = await follow(id, { 'last-event-id': first.last() });
    await expect.poll(second.names).toEqual(['status']);
    becomes(id, 'processing', { progress: { attempt: 1, percent: 10 } });
    await expect.poll(second.seen).toEqual(['2.0.0.', '2.1.10.']);
    second.leave();
    await left();
    const third = await follow(id, { 'last-event-id': second.last() });
    becomes(id, 'failed', { begun: true });
    await third.done;
    expect(third.seen()).toEqual(['3.1.10.']);
    const fourth = await follow(id, { 'last-event-id': third.last() });
    expect(fourth.response.status).toBe(204);
  });

  test('an id that this job never sent is none: all is told, and the stream goes on', async () => {
    const ended = await follow(job('succeeded'));
    await ended.done;
    const id = job();
    const first = await follow(id);
    await expect.poll(first.seen).toEqual(['1.0.0.']);
    first.leave();
    await left();
    for (const forged of ['3.0.0.', '3.1.100.', first.last().replace('1', '3'), ended.last(), 'nonsense']) {
      const stream = await follow(id, { 'last-event-id': forged });
      expect(stream.response.status, forged).toBe(200);
      await expect.poll(stream.ids, { message: forged }).toEqual(first.ids());
      expect(stream.ended(), forged).toBe(false);
      stream.leave();
      await left();
    }
  });

  test.each([
    ['unknown', { id: newId('job-') }, 404],
    ['no id of any job', { id: '%00..%2f' }, 404],
    ['without a key', { headers: { authorization: '' } }, 401],
  ])(
    '%s: an error before any stream',
    async (_name, { id, headers }: { id?: string; headers?: object }, status) => {
      const { response, text, done } = await follow(id ?? job(), { ...headers } as Record<string, string>);
      await done;
      expect([response.status, response.headers.get('content-type')]).toEqual([
        status,
        'application/json; charset=utf-8',
      ]);
      expect(text()).toContain('"error"');
      expect(response.headers.get('request-id')).toBeTruthy();
    },
  );

  test('HEAD answers the headers alone', async () => {
    const response = await fetch(`${t.base}/jobs/${job()}/events`, { method: 'HEAD', headers: t.auth });
    expect([response.status, response.headers.get('content-type')]).toEqual([
      200,
      'text/event-stream; charset=utf-8',
    ]);
  });

  test('an account has so many streams open, and one more when one has gone', async () => {
    const id = job();
    const open = await Promise.all(Array.from({ length: STREAMS_PER_ACCOUNT }, () => follow(id)));
    const refused = await follow(id);
    expect([refused.response.status, refused.response.headers.get('retry-after')]).toEqual([429, '2']);
    await refused.done;
    expect(refused.text()).toContain('at_capacity');
    await expect
      .poll(() => t.control.watches.size, { message: 'the refused one is not watched' })
      .toBe(STREAMS_PER_ACCOUNT);
    open[0]?.leave();
    await expect.poll(() => t.control.watches.size).toBe(STREAMS_PER_ACCOUNT - 1);
    const next = await follow(id);
    expect(next.response.status).toBe(200);
    for (const stream of [...open, next]) stream.leave();
  });

  test('a heartbeat when there is nothing to tell', async () => {
    const stream = await follow(job());
    await expect.poll(stream.text).toMatch(/\n\n:\n\n:\n\n/);
    stream.leave();
  });

  test('a client that does not read is dropped', async () => {
    const id = job('processing');
    const socket = connect(t.port, '127.0.0.1');
    socket.on('error', () => {});
    const head = `GET /api/v1/jobs/${id}/events HTTP/1.1\r\nHost: x\r\nAuthorization: ${t.auth.authorization}`;
    socket.write(`${head}\r\n\r\n`);
    socket.pause();
    await expect.poll(() => t.control.watches.size).toBe(1);
    let position = 1;
    // Each state is taken until the buffers of the system are full.
    const reason = 'x'.repeat(12_000);
    const flood = setInterval(() => {
      for (let i = 0; i < 20; i++) {
        t.control.tell(id, { begun: true, queue: { position: position++, of: 1, reason } });
      }
    }, 5);
    try {
      await expect.poll(() => t.control.watches.size, { timeout: 60_000, interval: 50 }).toBe(0);
    } finally {
      clearInterval(flood);
      socket.destroy();
    }
  });
});

test('what waits for a client that does not read: one write and the newest state', () => {
  const written: string[] = [];
  let taken = () => {};
  const response = {
    socket: null,
    flushHeaders() {},
    write(text: string, whenTaken: () => void) {
      written.push(text);
      taken = whenTaken;
    },
    end: () => void written.push('end'),
  } as unknown as ServerResponse;
  const stream = new EventStream(response, createEventIds(''), NOTHING);
  stream.begin(1_000);
  const made = { id: newId('job-'), status: 'processing', outputUrl: undefined, chargedMicros: undefined };
  const failure = { code: 'processing_failed', message: 'x'.repeat(1_024) };
  for (let percent = 0; percent < 100; percent++) {
    const state = { job: { ...made, error: failure }, begun: true, queue: undefined };
    stream.push({ ...state, progress: { attempt: 1, percent } });
  }
  expect(written.length, 'nothing is written before the first bytes are taken').toBe(1);
  taken();
  expect(written.length).toBe(2);
  expect(written[1]?.match(/^event: .*$/gm)).toEqual(['event: status', 'event: progress']);
  expect(written[1], 'the newest').toContain('"progress":0.99');
  expect(Buffer.byteLength(written[1] ?? '')).toBeLessThan(16 * 1024);
  taken();
  expect(written.length, 'the others are gone').toBe(2);
});

test('a stream that has been ended is dropped when its client does not take the end', () => {
  let destroyed = 0;
  const response = {
    socket: null,
    flushHeaders() {},
    write: (_text: string, whenTaken: () => void) => whenTaken(),
    end() {},
    destroy: () => destroyed++,
  } as unknown as ServerResponse;
  const pace = { heartbeat: 15_000, stuck: 30_000, lifetime: 60_000 };
  const stream = new EventStream(response, createEventIds(''), NOTHING);
  stream.begin(1_000);
  const began = performance.now();
  stream.tick(began + pace.lifetime + 1, pace);
  stream.tick(performance.now() + pace.stuck - 1_000, pace);
  expect(destroyed, 'it has its time').toBe(0);
  stream.tick(performance.now() + pace.stuck, pace);
  expect(destroyed).toBe(1);
});

test('without a control plane: 502 before any stream', async () => {
  const { port } = t.control;
  await t.control.close();
  const { response, done, text } = await follow(job());
  await done;
  expect([response.status, response.headers.get('content-type')]).toEqual([
    502,
    'application/json; charset=utf-8',
  ]);
  expect(text()).toContain('internal_error');
  await t.control.start(port);
  await expect.poll(async () => (await follow(job('succeeded'))).response.status).toBe(200);
});

test('a control plane that goes and comes back: streams stay, and go on with what is', async () => {
  const id = job();
  const stream = await follow(id);
  await expect.poll(stream.names).toEqual(['status']);
  const { port } = t.control;
  await t.control.close();
  job('processing', id);
  await t.control.start(port);
  await expect.poll(stream.names).toEqual(['status', 'status']);
  const again = t.control.calls.filter(({ method }) => method === 'watchJob').at(-1)?.request;
  expect(again).toMatchObject({ jobId: id, accountId: 'acct', keyId: 'key', caller: undefined });
  becomes(id, 'succeeded', { begun: true });
  await stream.done;
  expect(stream.ended()).toBe(true);
});

test('a stream whose key was revoked ends, and nothing asks for it again', async () => {
  const id = job();
  const stream = await follow(id);
  await expect.poll(stream.names).toEqual(['status']);
  t.control.refuse(id, 'unauthorized');
  await stream.done;
  expect(stream.ended()).toBe(true);
  expect(t.control.watches.size).toBe(0);
});

test('a gateway that ends, ends its streams well, so that clients come back', async () => {
  const other = await startTestGateway({ timing: { drain: 100_000, tidy: 100_000 } });
  const id = newId('job-');
  const made = { id, status: 'queued', outputUrl: undefined, chargedMicros: undefined, error: undefined };
  other.control.jobs.set(id, made);
  const stream = await follow(id, {}, other.base);
  await expect.poll(stream.names).toEqual(['status']);
  const began = performance.now();
  await other.close();
  await stream.done;
  expect(stream.ended(), 'not cut off').toBe(true);
  expect(performance.now() - began, 'nothing waits for a time limit').toBeLessThan(50_000);
});
