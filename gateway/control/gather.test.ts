import { status } from '@grpc/grpc-js';
import type { GetJobRequest, GetJobResult } from '@semblance/proto/semblance/control/v1/control';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createGather, refusalIn } from './gather.ts';

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] }));
afterEach(() => void vi.useRealTimers());

/** Waits for everything that needs no time: reads gather within a turn of the event loop, and answers take a few. */
async function turn(): Promise<void> {
  for (let i = 0; i < 5; i++) await new Promise((resolve) => setImmediate(resolve));
}

const caller = { keySha256: Buffer.alloc(32) };
const resultFor = (id: string): GetJobResult => ({
  outcome: { $case: 'job', value: { id, status: 'queued' } },
  rateLimit: '',
});

/** Reads whose messages the test answers one by one. */
function scripted(timeoutMs = 5_000) {
  const sent: {
    requests: GetJobRequest[];
    timeoutMs: number;
    requestId: string;
    answer: (results?: GetJobResult[]) => void;
    fail: (error: Error) => void;
  }[] = [];
  const read = createGather<GetJobRequest, GetJobResult>({
    timeoutMs,
    most: 128,
    atOnce: 2,
    send: (requests, timeoutMs, requestId) =>
      new Promise((resolve, reject) => {
        const whole = () => requests.map(({ jobId }) => resultFor(jobId));
        sent.push({
          requests,
          timeoutMs,
          requestId,
          answer: (results = whole()) => resolve(results),
          fail: reject,
        });
      }),
  });
  const ids = (index: number) => sent[index]?.requests.map(({ jobId }) => jobId);
  return { read: (jobId: string) => read({ caller, jobId }, `request-${jobId}`), sent, ids };
}

describe('createGather', () => {
  it('sends one read at once, alone', async () => {
    const { read, sent, ids } = scripted();
    const reading = read('a');
    await turn();
    expect(ids(0)).toEqual(['a']);
    expect(sent[0]?.requestId).toBe('request-a');
    sent[0]?.answer();
    expect(await reading).toEqual(resultFor('a'));
  });

  it('sends together what arrives together, and gathers while two messages are under way', async () => {
    const { read, sent, ids } = scripted();
    const all = [read('a'), read('b')];
    await turn();
    all.push(read('c'));
    await turn();
    all.push(read('d'), read('e'));
    await turn();
    all.push(read('f'));
    await turn();
    expect([sent.length, ids(0), ids(1)]).toEqual([2, ['a', 'b'], ['c']]);
    sent[1]?.answer();
    await turn();
    expect(ids(2)).toEqual(['d', 'e', 'f']);
    sent[0]?.answer();
    sent[2]?.answer();
    expect(
      (await Promise.all(all)).map(({ outcome }) => outcome?.$case === 'job' && outcome.value.id),
    ).toEqual([...'abcdef']);
  });

  it('keeps messages to a size', async () => {
    const { read, sent } = scripted();
    const all = Array.from({ length: 300 }, (_, i) => read(`j${i}`));
    for (let i = 0; i < 3; i++) {
      await turn();
      sent[i]?.answer();
    }
    await Promise.all(all);
    expect(sent.map(({ requests }) => requests.length)).toEqual([128, 128, 44]);
  });

  it('gives a message the time that its newest read has left', async () => {
    const { read, sent, ids } = scripted(1_000);
    const held = [read('a')];
    await turn();
    held.push(read('b'));
    await turn();
    held.push(read('c'));
    vi.advanceTimersByTime(300);
    held.push(read('d'));
    vi.advanceTimersByTime(50);
    sent[0]?.answer();
    await turn();
    expect(ids(2)).toEqual(['c', 'd']);
    expect(sent[2]?.timeoutMs).toBe(950);
    for (const { answer } of sent) answer();
    await Promise.all(held);
  });

  it('fails a read when its own time is up, and answers those of the same message that came later', async () => {
    const { read, sent, ids } = scripted(400);
    const settled: string[] = [];
    const note = (id: string) =>
      read(id).then(
        () => settled.push(`${id} answered`),
        ({ code, httpStatus }) => settled.push(`${id} ${code} ${httpStatus}`),
      );
    const all = [note('a')];
    await turn();
    all.push(note('b'));
    await turn();
    all.push(note('early'));
    vi.advanceTimersByTime(200);
    all.push(note('late'));
    await turn();
    sent[0]?.answer();
    await turn();
    expect(ids(2)).toEqual(['early', 'late']);
    vi.advanceTimersByTime(200);
    await turn();
    expect(settled).toContain('early internal_error 502');
    expect(settled).not.toContain('late answered');
    sent[2]?.answer();
    await turn();
    expect(settled).toContain('late answered');
    sent[1]?.answer();
    await Promise.all(all);
    expect(settled.filter((line) => line.startsWith('early'))).toHaveLength(1);
  });

  it('does not send a read whose time was up before its turn', async () => {
    const { read, sent, ids } = scripted(200);
    const lost = Promise.allSettled([read('a')]);
    await turn();
    const lostToo = Promise.allSettled([read('b')]);
    await turn();
    const waited = Promise.allSettled([read('waited')]);
    vi.advanceTimersByTime(200);
    expect((await Promise.all([lost, lostToo, waited])).flat().map(({ status }) => status)).toEqual([
      'rejected',
      'rejected',
      'rejected',
    ]);
    const fresh = read('fresh');
    sent[0]?.fail(Object.assign(new Error('deadline'), { code: status.DEADLINE_EXCEEDED }));
    await turn();
    expect(ids(2)).toEqual(['fresh']);
    sent[2]?.answer();
    expect(await fresh).toEqual(resultFor('fresh'));
  });

  it('fails every read of a message that fails, and goes on', async () => {
    const { read, sent } = scripted();
    const all = Promise.allSettled([read('a'), read('b')]);
    await turn();
    sent[0]?.fail(Object.assign(new Error('gone'), { code: status.UNAVAILABLE }));
    for (const result of await all)
      expect(result).toMatchObject({
        status: 'rejected',
        reason: { code: 'internal_error', httpStatus: 502 },
      });
    const next = read('c');
    await turn();
    sent[1]?.answer();
    expect(await next).toEqual(resultFor('c'));
  });

  it('fails the reads that an answer leaves out', async () => {
    const { read, sent } = scripted();
    const all = Promise.allSettled([read('a'), read('b')]);
    await turn();
    sent[0]?.answer([resultFor('a')]);
    expect(await all).toMatchObject([{ status: 'fulfilled' }, { reason: { code: 'internal_error' } }]);
  });
});

describe('refusalIn', () => {
  it.each([
    ['not_found', 'not_found', 404],
    ['rate_limited', 'rate_limited', 429],
    ['internal_error', 'internal_error', 502],
    ['of another version', 'internal_error', 502],
  ])('%s', (code, expected, httpStatus) => {
    const result = {
      outcome: { $case: 'refusal', value: { code, message: 'Why.' } },
      rateLimit: '',
    } as const;
    expect(refusalIn(result)).toMatchObject({ code: expected, httpStatus, message: 'Why.' });
  });

  it('nothing at all is a failure', () => {
    expect(refusalIn({ outcome: undefined })).toMatchObject({ code: 'internal_error' });
  });
});
