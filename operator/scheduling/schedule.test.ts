import { describe, expect, it } from 'vitest';
import type { Readiness } from '../agents/view.ts';
import { explain } from './explain.ts';
import { createFairShare } from './fair-share.ts';
import { needOf, parseNeed } from './need.ts';
import { ordinal } from './reasons.ts';
import { type PlaceOptions, place, type ScheduledAgent, type WaitingJob } from './schedule.ts';
import { createWaitingQueue } from './waiting-queue.ts';

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

/** Returns the jobs with creation times in this order. */
const inOrder = (...queue: WaitingJob[]) =>
  queue.map((each, i) => ({ ...each, createdAt: new Date(Date.UTC(2026, 0, 1) + i * 1_000).toISOString() }));
/** Places jobs, which may be in any order, and explains why the others wait. */
function schedule(
  jobs: readonly WaitingJob[],
  agents: readonly ScheduledAgent[],
  packing?: PlaceOptions['packing'],
) {
  const [queue, shares, now] = [createWaitingQueue(), createFairShare(), 0];
  for (const each of jobs) queue.put(each);
  const placed = place({ queue, agents, shares, now, packing });
  const placements = new Map(placed.map(({ job, agent, incarnation }) => [job.uid, { agent, incarnation }]));
  return { placements, waiting: explain({ queue, agents, shares, now }) };
}
const jobs = (...names: string[]) => names.map((name) => job(name));
const placed = (queue: WaitingJob[], agents: ScheduledAgent[]) =>
  [...schedule(queue, agents).placements].map(([uid, placement]) => `${uid}@${placement.agent}`);
const reasonOf = (queue: WaitingJob[], agents: ScheduledAgent[], uid: string) =>
  schedule(queue, agents).waiting.get(uid);

describe('a voice', () => {
  const speech = (...ids: string[]) => ({
    voices: ids.map((id) => ({ id, language: 'en' })),
    languages: ['en', ...(ids.includes('thorsten') ? ['de'] : [])],
  });
  const speaker = (name: string, ...ids: string[]) =>
    agent(name, { costs: new Map([['avatar', 1]]), ...(ids.length > 0 && { speech: speech(...ids) }) });
  const avatar = (name: string, parameters: Record<string, string> = {}) =>
    job(name, { capability: 'avatar', need: needOf({ capability: 'avatar', parameters }) });

  it('brings a job to an agent that has it, and a language to one that speaks it', () => {
    const agents = [speaker('a', 'slt'), speaker('b', 'thorsten')];
    expect(
      placed(
        inOrder(
          avatar('one', { voice_id: 'thorsten' }),
          avatar('two', { language: 'de-AT' }),
          avatar('three', { voice_id: 'slt' }),
          avatar('four', { language: 'en' }),
        ),
        agents,
      ).sort(),
    ).toEqual(['four@a', 'one@b', 'three@a', 'two@b']);
  });

  it('that no agent has is the reason of its job, and holds up no other', () => {
    const agents = [speaker('a', 'slt'), speaker('b', 'rms')];
    const queue = inOrder(
      avatar('none', { voice_id: 'thorsten' }),
      avatar('some', { voice_id: 'rms' }),
      avatar('any'),
    );
    expect(placed(queue, agents).sort()).toEqual(['any@a', 'some@b']);
    expect(reasonOf(queue, agents, 'none')).toMatchObject({
      reason: 'NoAgentWithVoice',
      message: '1st of 1 waiting; none of 2 agents with avatar has the voice thorsten.',
    });
  });

  it('has a language as a hint: one that no agent speaks keeps nothing waiting, one that is spoken elsewhere does', () => {
    const agents = [speaker('a', 'slt'), { ...speaker('b', 'thorsten'), used: 2 }];
    expect(placed([avatar('one', { language: 'fr' })], agents)).toEqual(['one@a']);
    expect(placed([avatar('one', { voice_id: 'slt', language: 'fr' })], agents)).toEqual(['one@a']);
    expect(placed([avatar('one', { language: 'de' })], agents)).toEqual([]);
    expect(reasonOf([avatar('one', { language: 'de' })], agents, 'one')?.reason).toBe('SlotsBusy');
  });

  it('may be that of an agent that does not tell its voices', () => {
    expect(placed([avatar('one', { voice_id: 'thorsten' })], [speaker('a', 'slt'), speaker('b')])).toEqual([
      'one@b',
    ]);
  });

  it('waits for its own agent among others that are free, and counts those that want the same', () => {
    const agents = [speaker('a', 'slt'), { ...speaker('b', 'thorsten'), used: 2 }];
    const queue = inOrder(avatar('one', { voice_id: 'thorsten' }), avatar('two', { voice_id: 'thorsten' }));
    expect(placed(queue, agents)).toEqual([]);
    expect(reasonOf(queue, agents, 'two')).toMatchObject({
      reason: 'SlotsBusy',
      message: '2nd of 2 waiting; 2 of 2 slots on 1 agent are busy.',
    });
  });

  it('is asked for by avatar alone', () => {
    expect(needOf({ capability: 'photo', parameters: { voice_id: 'slt' } })).toBe('photo');
    expect(needOf({ capability: 'avatar', parameters: { script: 'Hello.' } })).toBe('avatar');
    expect(parseNeed(needOf({ capability: 'avatar', parameters: { language: 'de' } }))).toEqual({
      capability: 'avatar',
      voice: undefined,
      language: 'de',
    });
  });
});

describe('the queue', () => {
  it('is in order of priority, then creation, then name', () => {
    const queue = [
      job('c'),
      job('b'),
      job('late', { createdAt: '2026-01-01T00:00:01Z' }),
      job('urgent', { priority: 5, createdAt: '2026-01-01T00:00:09Z' }),
      job('lowly', { priority: -1, createdAt: '2025-01-01T00:00:00Z' }),
    ];
    const { waiting } = schedule(queue, [agent('a', { used: 2 })]);
    expect([...waiting.keys()]).toEqual(['urgent', 'b', 'c', 'late', 'lowly']);
    expect([...waiting.values()].map(({ position }) => position)).toEqual([1, 2, 3, 4, 5]);
  });
});

describe('placing', () => {
  it('fills the emptiest agent first', () => {
    const agents = [agent('a', { used: 1 }), agent('b', { slots: 3 })];
    expect(placed(jobs('1', '2', '3', '4', '5'), agents)).toEqual(['1@b', '2@b', '3@a', '4@b']);
  });

  it.each(['spread', 'pack'] as const)(
    'gives an interrupted job to another agent if one has room: %s',
    (packing) => {
      const interrupted = [job('1', { interruptedOn: 'a' })];
      const on = (...agents: ScheduledAgent[]) =>
        schedule(interrupted, agents, packing).placements.get('1')?.agent;
      expect(on(agent('a', { slots: 4 }), agent('b', { used: 1 }), agent('c', { slots: 1 }))).not.toBe('a');
      expect(on(agent('a', { used: 1 }), agent('b', { slots: 4 }))).toBe('b');
      // It never waits for another one.
      expect(on(agent('a'), agent('b', { used: 2 }), agent('c', { paused: true }))).toBe('a');
      expect(on(agent('a', { paused: true }))).toBeUndefined();
    },
  );

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
    const queue = inOrder(job('no-engine', { capability: 'avatar' }), job('photo'));
    expect(placed(queue, [agent('a')])).toEqual(['photo@a']);
  });

  it('keeps the nearest agent for a job that needs several slots', () => {
    const costs = new Map([
      ['photo', 1],
      ['video', 3],
    ]);
    const agents = [agent('a', { slots: 3, used: 1, costs }), agent('b', { slots: 3, used: 2, costs })];
    const queue = inOrder(job('video', { capability: 'video' }), job('p1'), job('p2'));
    expect(placed(queue, agents)).toEqual(['p1@b']);
    expect(placed(queue, [agent('a', { slots: 3, costs })])).toEqual(['video@a']);
  });

  it('binds to the process, not only to the name', () => {
    const { placements } = schedule(jobs('1'), [agent('a', { incarnation: 'xyz' })]);
    expect(placements.get('1')).toEqual({ agent: 'a', incarnation: 'xyz' });
  });
});

describe('memory', () => {
  const memory = new Map([['photo', 1_000]]);
  const large = (name: string, more: Partial<ScheduledAgent> = {}) =>
    agent(name, { slots: 4, memory, memoryMib: 2_500, ...more });

  it('is counted beside slots', () => {
    expect(placed(jobs('1', '2', '3'), [large('a')])).toEqual(['1@a', '2@a']);
    expect(placed(jobs('1', '2'), [large('a', { used: 1, memoryUsed: 1_000 })])).toEqual(['1@a']);
  });

  it('is not counted at an agent that does not say what it has', () => {
    expect(placed(jobs('1', '2', '3'), [large('a', { memoryMib: undefined })])).toHaveLength(3);
  });

  it('never keeps a job from an agent that does nothing else', () => {
    expect(placed(jobs('1', '2'), [large('a', { memoryMib: 500 })])).toEqual(['1@a']);
  });

  it('is the reason to wait where slots are free', () => {
    const agents = [large('a', { used: 2, memoryUsed: 2_000 }), large('b', { used: 4, memoryUsed: 2_000 })];
    expect(reasonOf(jobs('1'), agents, '1')).toMatchObject({
      reason: 'MemoryBusy',
      message: expect.stringMatching(/a: 500 of 2500 MiB left, it takes 1000\)/),
    });
  });
});

describe('the memory of cards', () => {
  const CARD = { uuid: 'GPU-1', totalMib: 10_000 };
  const onCard = (name: string, more: Partial<ScheduledAgent> = {}) =>
    agent(name, {
      slots: 4,
      cards: [CARD],
      vramHeldMib: 2_000,
      vram: new Map([['photo', 3_000]]),
      ...more,
    });

  it('is counted beside slots, with what engines hold', () => {
    expect(placed(jobs('1', '2', '3'), [onCard('a')])).toEqual(['1@a', '2@a']);
    expect(placed(jobs('1', '2'), [onCard('a', { used: 1, vramUsed: 3_000 })])).toEqual(['1@a']);
  });

  it('is counted once for all agents of a card', () => {
    // Two engines hold 4,000 of 10,000 MiB, and two renders of 3,000 fit.
    const both = [onCard('a'), onCard('b')];
    expect(placed(jobs('1', '2', '3'), both)).toHaveLength(2);
    const [a, b] = [onCard('a', { used: 2, vramUsed: 6_000 }), onCard('b')];
    expect(placed(jobs('1'), [a, b])).toEqual([]);
    const elsewhere = onCard('b', { cards: [{ ...CARD, uuid: 'GPU-2' }] });
    expect(placed(jobs('1'), [a, elsewhere])).toEqual(['1@b']);
    // A process that is gone holds nothing.
    expect(placed(jobs('1'), [{ ...a, ...agent('a', { unready: 'HeartbeatLost' }) }, b])).toEqual(['1@b']);
  });

  it('is not counted where an agent shows no card, or the engine takes nothing of it', () => {
    expect(placed(jobs('1', '2', '3', '4'), [onCard('a', { cards: [] })])).toHaveLength(4);
    expect(placed(jobs('1', '2', '3', '4'), [onCard('a', { vram: new Map() })])).toHaveLength(4);
  });

  it('never keeps a job from a card on which nothing renders', () => {
    expect(placed(jobs('1', '2'), [onCard('a', { vramHeldMib: 9_000 })])).toEqual(['1@a']);
  });

  it('is the reason to wait where slots are free', () => {
    const agents = [onCard('a', { used: 2, vramUsed: 6_000 })];
    expect(reasonOf(jobs('1'), agents, '1')).toMatchObject({
      reason: 'CardsBusy',
      message: expect.stringMatching(/memory of their cards \(a: 2000 of 10000 MiB left, it takes 3000\)/),
    });
  });
});

describe('packing', () => {
  const agents = [
    agent('a', { slots: 4, used: 1 }),
    agent('b', { slots: 4, used: 2 }),
    agent('c', { used: 2 }),
  ];
  it.each([
    ['spread', ['1@a', '2@a', '3@b']],
    ['pack', ['1@b', '2@b', '3@a']],
  ] as const)('%s', (packing, expected) => {
    const { placements } = schedule(jobs('1', '2', '3'), agents, packing);
    expect([...placements].map(([uid, placement]) => `${uid}@${placement.agent}`)).toEqual(expected);
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
    const queue = inOrder(
      job('v1', { capability: 'video' }),
      job('p1'),
      job('x', { capability: 'avatar' }),
      job('p2'),
    );
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

  it('is worked out for ten thousand of many accounts', () => {
    const queue = Array.from({ length: 10_000 }, (_, i) => job(`j${i}`, { account: `a${i % 100}` }));
    const places = [...schedule(queue, [agent('a', { used: 2 })]).waiting.values()];
    expect(places.map(({ position }) => position)).toEqual(queue.map((_, i) => i + 1));
  });

  it('is told of the last of ten thousand', () => {
    const queue = Array.from({ length: 10_000 }, (_, i) => job(`j${i}`));
    const { waiting } = schedule(queue, [agent('a', { used: 2 })]);
    expect(waiting.get('j9999')).toMatchObject({
      position: 10_000,
      message: expect.stringMatching(/^10000th of/),
    });
  });
});

it('a job whose PriorityClass cannot be read says so, with its place', () => {
  expect(reasonOf([job('1', { unknownClass: 'gone' })], [agent('a', { used: 2 })], '1')).toMatchObject({
    reason: 'PriorityClassUnknown',
    position: 1,
    message: expect.stringMatching(
      /^1st of 1 waiting; PriorityClasses cannot be read, so gone counts as priority 0; .*2 of 2 slots/,
    ),
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
