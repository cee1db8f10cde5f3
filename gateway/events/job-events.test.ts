import type { JobProgress, JobQueue, JobState } from '@semblance/proto/semblance/control/v1/control';
import { anyText } from '@semblance/testkit/common/any-text';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createEventIds, NOTHING, type Seen, tellNews } from './job-events.ts';

const ID = 'job-01k9x3v7m2q8r5t1w4y6z0abcd';
const ids = createEventIds('secret');

function state(
  status: string,
  more: { begun?: boolean; progress?: JobProgress; queue?: JobQueue } = {},
): JobState {
  const job = { id: ID, status, outputUrl: undefined, chargedMicros: undefined, error: undefined };
  return { job, begun: status === 'processing', progress: undefined, queue: undefined, ...more };
}

const progress = (attempt: number, percent: number, etaSeconds?: number) => ({
  progress: { attempt, percent, etaSeconds },
});
const queue = (position: number, of = position, reason = 'busy') => ({ queue: { position, of, reason } });

/** Returns in short what a client receives for a series of states. */
function hear(states: JobState[], from: Seen = NOTHING) {
  let seen = from;
  const heard: string[] = [];
  for (const one of states) {
    const told = tellNews(one, seen, ids);
    seen = told.seen;
    for (const event of told.text.split('\n\n').filter(Boolean)) {
      const data = JSON.parse(/^data: (.*)$/m.exec(event)?.[1] ?? '');
      const left = typeof data.eta_seconds === 'number' ? `, ${data.eta_seconds} s left` : '';
      const share = data.progress === undefined ? undefined : `${data.progress}${left}`;
      const rest = data.status ?? share ?? `${data.position}/${data.of} ${data.reason}`;
      heard.push(`${/^event: (.*)$/m.exec(event)?.[1]} ${rest}`);
    }
  }
  return { heard, seen };
}

describe('tellNews', () => {
  test('the whole life of a job', () => {
    const states = [
      state('queued'),
      state('queued', queue(2)),
      state('queued', queue(2)),
      state('queued', queue(1)),
      state('processing', progress(1, 0)),
      state('processing', progress(1, 30, 12)),
      state('processing', progress(1, 30, 11)),
      state('succeeded', { begun: true }),
    ];
    expect(hear(states).heard).toEqual([
      'status queued',
      'queue 2/2 busy',
      'queue 1/1 busy',
      'status processing',
      'progress 0',
      'progress 0.3, 12 s left',
      'status succeeded',
    ]);
  });

  test('a client that comes late is told the present state alone', () => {
    expect(hear([state('succeeded', { begun: true })]).heard).toEqual(['status succeeded']);
  });

  test('a status that was passed is told; one that never was, is not', () => {
    const queued = { ...NOTHING, status: 1 };
    expect(hear([state('failed', { begun: true })], queued).heard).toEqual([
      'status processing',
      'status failed',
    ]);
    expect(hear([state('failed')], queued).heard).toEqual(['status failed']);
  });

  test('nothing goes back: neither a status nor the progress of an attempt', () => {
    const { heard } = hear([
      state('processing', progress(1, 60)),
      state('queued', queue(1)),
      state('processing', progress(1, 40)),
      state('processing', progress(2, 5)),
      state('processing', progress(1, 99)),
    ]);
    expect(heard).toEqual(['status processing', 'progress 0.6', 'progress 0.05']);
  });

  test('a job that waits again is told its place again', () => {
    const { heard } = hear([
      state('queued', queue(1)),
      state('processing', progress(1, 60)),
      state('processing', queue(1)),
      state('processing', progress(2, 0)),
    ]);
    expect(heard).toEqual([
      'status queued',
      'queue 1/1 busy',
      'status processing',
      'progress 0.6',
      'queue 1/1 busy',
      'progress 0',
    ]);
  });

  test('unknown place, size and reason are null', () => {
    const { text } = tellNews(state('queued', queue(0, 0, '')), { ...NOTHING, status: 1 }, ids);
    expect(text).toContain('data: {"position":null,"of":null,"reason":null}');
  });
});

const number = (max: number) => fc.integer({ min: 0, max });
const states = fc.array(
  fc.record({
    status: fc.constantFrom('queued', 'processing', 'succeeded', 'failed'),
    begun: fc.boolean(),
    progress: fc.option(fc.record({ attempt: number(3), percent: number(100) }), { nil: undefined }),
    queue: fc.option(
      fc.record({ position: number(9), of: number(9), reason: fc.constantFrom('', 'busy', 'no_agent') }),
      { nil: undefined },
    ),
  }),
  { maxLength: 12 },
);

test('whoever breaks off anywhere and comes back with the last id hears what one who stayed hears, once', () => {
  fc.assert(
    fc.property(states, fc.array(number(12), { maxLength: 4 }), (all, breaks) => {
      const life = all.map(({ status, ...more }) => state(status, more));
      const stayed = hear(life);
      let seen: Seen = NOTHING;
      const heard: string[] = [];
      for (const [i, one] of life.entries()) {
        // A client brings along only the id of an event, and none before the first.
        if (breaks.includes(i)) seen = seen.status === 0 ? NOTHING : ids.parse(ID, ids.format(ID, seen));
        const part = hear([one], seen);
        heard.push(...part.heard);
        seen = part.seen;
      }
      expect(heard).toEqual(stayed.heard);
      const statuses = heard.filter((event) => event.startsWith('status'));
      expect(new Set(statuses).size).toBe(statuses.length);
    }),
    { numRuns: 500 },
  );
});

const near = fc.string({ unit: fc.constantFrom(...'0123456789..--_busy'), maxLength: 40 });
const seen = fc.record({
  status: fc.integer({ min: 1, max: 3 }),
  attempt: number(3),
  percent: number(100),
  queue: fc.constantFrom('', '1-2-busy', '0-0-'),
});

describe('event ids', () => {
  test('say what was told, to every gateway that shares the secret', () => {
    fc.assert(
      fc.property(seen, (told) => {
        const id = ids.format(ID, told);
        expect(createEventIds('secret').parse(ID, id)).toEqual(told);
        expect(id).toMatch(/^[\w.-]{18,64}$/);
      }),
    );
  });

  test('anything else says nothing: another text, another job, another secret; and nothing throws', () => {
    const own = ids.format(ID, { ...NOTHING, status: 1 });
    for (const id of [
      ...[
        undefined,
        '',
        '1',
        '1.0.0.',
        '3.0.0.',
        '3.1.100..AAAAAAAAAAA',
        ` ${own}`,
        `${own}x`,
        own.toUpperCase(),
      ],
      ...[own.replace('1.', '3.'), own.replace('1.0', '01.0'), own.slice(0, -1), `${own}\n`],
    ]) {
      expect(ids.parse(ID, id), String(id)).toBe(NOTHING);
    }
    expect(ids.parse(`${ID.slice(0, -1)}e`, own)).toBe(NOTHING);
    expect(createEventIds('').parse(ID, own)).toBe(NOTHING);
    fc.assert(
      fc.property(fc.oneof(fc.string(), anyText(), near), (id) => {
        expect(ids.parse(ID, id)).toBe(NOTHING);
      }),
      { numRuns: 500 },
    );
  });
});
