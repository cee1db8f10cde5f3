import { describe, expect, it } from 'vitest';
import type { Readiness } from '../agents/view.ts';
import { ordinal } from './reasons.ts';
import { inQueueOrder, type ScheduledAgent, schedule, type WaitingJob } from './schedule.ts';

function agent(
  name: string,
  more: Partial<ScheduledAgent> & { unready?: Readiness['reason'] } = {},
): ScheduledAgent {
  const reason = more.unready ?? 'Ready';
  return {
    name,
    incarnation: `${name}-1`,
    slots: 2,
    used: 0,
    costs: new Map([['photo', 1]]),
    readiness: { ready: reason === 'Ready', reason, message: '' },
    ...more,
  };
}

function job(name: string, more: Partial<WaitingJob> = {}): WaitingJob {
  return { uid: name, name, capability: 'photo', priority: 0, createdAt: '2026-01-01T00:00:00Z', ...more };
}

const jobs = (...names: string[]) => names.map((name) => job(name));
const placed = (queue: WaitingJob[], agents: ScheduledAgent[]) =>
  [...schedule(queue, agents).placements].map(([uid, placement]) => `${uid}@${placement.agent}`);
const reasonOf = (queue: WaitingJob[], agents: ScheduledAgent[], uid: string) =>
  schedule(queue, agents).waiting.get(uid);

describe('the queue', () => {
  it('is in order of priority, then creation, then name', () => {
    const queue = [
      job('c'),
      job('b'),
      job('late', { createdAt: '2026-01-01T00:00:01Z' }),
      job('urgent', { priority: 5, createdAt: '2026-01-01T00:00:09Z' }),
      job('lowly', { priority: -1, createdAt: '2025-01-01T00:00:00Z' }),
    ];
    expect(queue.sort(inQueueOrder).map(({ name }) => name)).toEqual(['urgent', 'b', 'c', 'late', 'lowly']);
  });
});

describe('placing', () => {
  it('fills the emptiest agent first', () => {
    const agents = [agent('a', { used: 1 }), agent('b', { slots: 3 })];
    expect(placed(jobs('1', '2', '3', '4', '5'), agents)).toEqual(['1@b', '2@b', '3@a', '4@b']);
  });

  it('uses no agent that is not ready, paused, full, or without the engine', () => {
    const agents = [
      agent('late', { unready: 'HeartbeatLost' }),
      agent('paused', { paused: true }),
      agent('full', { used: 2 }),
      agent('over', { used: 5 }),
      agent('video', { costs: new Map([['video', 1]]) }),
    ];
    expect(placed(jobs('1'), agents)).toEqual([]);
  });

  it('lets nothing that cannot be placed hold up what can', () => {
    const queue = [job('no-engine', { capability: 'avatar' }), job('photo')];
    expect(placed(queue, [agent('a')])).toEqual(['photo@a']);
  });

  it('keeps the nearest agent for a job that needs several slots', () => {
    const costs = new Map([
      ['photo', 1],
      ['video', 3],
    ]);
    const agents = [agent('a', { slots: 3, used: 1, costs }), agent('b', { slots: 3, used: 2, costs })];
    const queue = [job('video', { capability: 'video' }), job('p1'), job('p2')];
    expect(placed(queue, agents)).toEqual(['p1@b']);
    expect(placed(queue, [agent('a', { slots: 3, costs })])).toEqual(['video@a']);
  });

  it('binds to the process, not only to the name', () => {
    const { placements } = schedule(jobs('1'), [agent('a', { incarnation: 'xyz' })]);
    expect(placements.get('1')).toEqual({ agent: 'a', incarnation: 'xyz' });
  });
});

describe('the reason to wait', () => {
  const table: [string, ScheduledAgent[], string, RegExp][] = [
    ['no agent', [], 'NoAgents', /no agent has registered/],
    [
      'no engine',
      [agent('a', { costs: new Map([['video', 1]]) })],
      'NoAgentForCapability',
      /none of 1 agent has an engine for photo; they offer video/,
    ],
    [
      'too large for all',
      [agent('a', { costs: new Map([['photo', 4]]) })],
      'SlotsTooFew',
      /photo takes 4 slots and no agent has more than 2/,
    ],
    ['all drain', [agent('a', { unready: 'Draining' })], 'AgentsDraining', /a: Draining/],
    [
      'none ready',
      [agent('a', { unready: 'Draining' }), agent('b', { unready: 'Unreachable' })],
      'AgentsNotReady',
      /2 agents could take it but are not ready \(a: Draining, b: Unreachable\)/,
    ],
    [
      'all busy',
      [agent('a', { used: 2 }), agent('b', { used: 2 }), agent('c', { unready: 'HeartbeatLost' })],
      'SlotsBusy',
      /4 of 4 slots on 2 agents are busy \(1 more agent not ready\)/,
    ],
  ];
  it.each(table)('%s', (_, agents, reason, message) => {
    expect(reasonOf(jobs('1'), agents, '1')).toMatchObject({
      reason,
      message: expect.stringMatching(message),
    });
  });

  it('counts places among those who compete for the same agents', () => {
    const agents = [agent('a', { used: 2 }), agent('b', { used: 2, costs: new Map([['video', 1]]) })];
    const queue = [
      job('v1', { capability: 'video' }),
      job('p1'),
      job('x', { capability: 'avatar' }),
      job('p2'),
    ];
    expect(reasonOf(queue, agents, 'p2')).toMatchObject({
      position: 2,
      message: expect.stringMatching(/^2nd of 2 /),
    });
    expect(reasonOf(queue, agents, 'v1')).toMatchObject({
      position: 1,
      message: expect.stringMatching(/^1st of 1 /),
    });
    const both = new Map([
      ['photo', 1],
      ['video', 1],
    ]);
    expect(reasonOf(queue, [agent('a', { used: 2, costs: both })], 'p2')?.position).toBe(3);
  });

  it('is worked out for ten thousand in a moment', () => {
    const queue = Array.from({ length: 10_000 }, (_, i) => job(`j${i}`));
    const { waiting } = schedule(queue, [agent('a', { used: 2 })]);
    expect(waiting.get('j9999')).toMatchObject({
      position: 10_000,
      message: expect.stringMatching(/^10000th of/),
    });
  });
});

it('ordinals', () => {
  expect([1, 2, 3, 4, 11, 12, 13, 21, 22, 101, 111, 113].map(ordinal)).toEqual([
    '1st',
    '2nd',
    '3rd',
    '4th',
    '11th',
    '12th',
    '13th',
    '21st',
    '22nd',
    '101st',
    '111th',
    '113th',
  ]);
});
