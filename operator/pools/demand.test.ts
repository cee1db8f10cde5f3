import { agentOf, busy, podOf, poolOf, profileWith } from '@semblance/testkit/operator/pool-snapshots';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { type Bidder, shareDemand } from './demand.ts';
import { profileOf } from './observe.ts';
import { explainWaiting, mayGrow, type Outlook } from './outlook.ts';
import { createRefusedOpens } from './refused-opens.ts';
import { NO_DEMAND } from './types.ts';

const bidder = (name: string, more: Partial<Bidder> = {}): Bidder => ({
  name,
  profile: profileWith(),
  pods: [],
  max: 2,
  blocked: false,
  ...more,
});
const jobs = (count: number) => ({ ...NO_DEMAND, jobs: new Map([['face-swap', count]]) });
const shared = (count: number, ...pools: Bidder[]) =>
  Object.fromEntries(
    [...shareDemand(jobs(count), pools)].map(([name, { jobs: of }]) => [name, of.get('face-swap') ?? 0]),
  );

describe('demand', () => {
  it('is counted once: free slots first, then what pools may grow by, in order of their names', () => {
    const warm = bidder('c', { pods: [podOf('c-1')] });
    expect(shared(1, bidder('b'), bidder('a'), warm)).toEqual({ a: 0, b: 0, c: 1 });
    expect(shared(3, bidder('b'), bidder('a'), warm)).toEqual({ a: 1, b: 0, c: 2 });
    expect(shared(9, bidder('b'), bidder('a'), warm)).toEqual({ a: 4, b: 3, c: 2 });
  });

  it('passes over pools that cannot start agents, do not grow, or lack the capability', () => {
    const pools = [
      bidder('a', { blocked: true }),
      bidder('b', { max: undefined }),
      bidder('c', { profile: profileWith({ capabilities: new Set(['voice']) }) }),
      bidder('d'),
    ];
    expect(shared(3, ...pools)).toEqual({ a: 0, b: 0, c: 0, d: 3 });
  });

  it('beyond all room is told to the first that grows', () => {
    expect(shared(100, bidder('a'), bidder('b'))).toEqual({ a: 96, b: 4 });
  });

  it('stays with a pool that cannot start agents when there is no other', () => {
    expect(shared(3, bidder('b', { blocked: true }), bidder('c', { blocked: true }))).toEqual({ b: 3, c: 0 });
  });

  it('beyond all room is told to the first that others scale, too', () => {
    const [x, y] = [bidder('x', { max: undefined }), bidder('y', { max: undefined })];
    expect(shared(3, y, x)).toEqual({ x: 3, y: 0 });
    expect(shared(4, x, bidder('a'))).toEqual({ a: 4, x: 0 });
    expect(shared(5, x, bidder('a'))).toEqual({ a: 5, x: 1 });
  });

  it('of who was passed over is not met by free slots', () => {
    const warm = bidder('c', { pods: [podOf('c-1')] });
    const demand = { ...jobs(3), passedOver: new Map([['face-swap', 2]]) };
    const given = shareDemand(demand, [bidder('a'), warm]);
    expect(given.get('c')?.jobs.get('face-swap')).toBe(1);
    expect(given.get('a')?.jobs.get('face-swap')).toBe(2);
    expect([given.get('c')?.passedOver, given.get('a')?.passedOver]).toEqual([new Map(), demand.passedOver]);
  });

  it('of live sessions has slots of its own', () => {
    const live = new Map([['voice', { slots: 4, used: 3 }]]);
    const profile = profileWith({
      live: new Map([['voice', 4]]),
      capabilities: new Set(['voice', 'face-swap']),
    });
    const pool = bidder('a', { profile, pods: [podOf('a-1', { agent: busy(2, { live }) })] });
    const other = bidder('b', { profile });
    const demand = { ...NO_DEMAND, opens: new Map([['voice', 7]]) };
    const given = shareDemand(demand, [pool, other]);
    expect(given.get('a')?.opens.get('voice')).toBe(5);
    expect(given.get('b')?.opens.get('voice')).toBe(2);
  });
});

describe('opens that found no slot', () => {
  afterEach(() => void vi.restoreAllMocks());

  it('count for a minute and a half, of an account as many as it asked for at once', () => {
    let now = 0;
    const opens = createRefusedOpens();
    vi.spyOn(performance, 'now').mockImplementation(() => now);
    for (const account of ['a', 'a', 'b']) opens.refused('voice', account);
    expect(opens.demand()).toEqual(new Map([['voice', 3]]));
    now = 30_000;
    opens.refused('voice', 'a');
    expect(opens.demand()).toEqual(new Map([['voice', 3]]));
    opens.opened('voice', 'b');
    opens.opened('voice', 'a');
    expect(opens.demand()).toEqual(new Map([['voice', 1]]));
    now = 96_000;
    expect(opens.demand()).toEqual(new Map());
  });

  it('count however many others of the account found one before', () => {
    const opens = createRefusedOpens();
    opens.refused('voice', 'a');
    for (let i = 0; i < 4; i++) opens.opened('voice', 'a');
    opens.refused('voice', 'a');
    expect(opens.demand()).toEqual(new Map([['voice', 1]]));
  });
});

describe('what one agent holds', () => {
  const capabilities = ['face-swap', 'voice'] as const;
  const env = [
    { name: 'SEMBLANCE_AGENT_SLOTS', value: '3' },
    { name: 'SEMBLANCE_LIVE_VOICE_SLOTS', value: '8' },
  ];
  const template = { spec: { containers: [{ name: 'agent', image: 'a', env }] } };
  const pool = (perAgent?: object) =>
    poolOf({ capabilities: [...capabilities], template }, perAgent ? { perAgent } : undefined);

  it('is taken from the template, then from what was last seen, then from a ready agent', () => {
    expect(profileOf(pool(), 'new', [])).toMatchObject({
      slots: 3,
      live: new Map([['voice', 8]]),
      known: false,
    });
    const seen = pool({
      slots: 5,
      renders: [{ name: 'face-swap', slots: 2 }],
      live: [{ name: 'voice', slots: 9 }],
    });
    expect(profileOf(seen, 'new', [])).toMatchObject({
      slots: 5,
      live: new Map([['voice', 9]]),
      costs: new Map([['face-swap', 2]]),
      known: false,
      capabilities: new Set(capabilities),
    });
    const told = profileOf(seen, 'new', [podOf('a', { agent: agentOf({ slots: 7 }) })]);
    expect(told).toMatchObject({ slots: 7, known: true, capabilities: new Set(['face-swap']) });
  });
});

describe('the word of pools', () => {
  const outlook = (more: Partial<Outlook>): Outlook => ({
    pool: 'gpu',
    capabilities: new Set(['voice']),
    ready: 1,
    desired: 1,
    max: undefined,
    fault: undefined,
    ...more,
  });
  const fault = { reason: 'ErrImagePull', message: 'gpu-a: no such image' };
  const others = { reason: 'SlotsBusy', message: '2 of 2 slots on 1 agent are busy.' };

  it.each<[string, Outlook, boolean, string | undefined]>([
    ['one that can grow', outlook({ max: 2 }), true, 'PoolScalingUp'],
    ['one at its maximum', outlook({ max: 1 }), false, 'PoolAtMaximum'],
    ['one at its maximum whose agents start', outlook({ max: 1, ready: 0 }), true, 'PoolScalingUp'],
    ['one whose number others say, all ready', outlook({}), false, undefined],
    ['one whose number others say, starting', outlook({ desired: 3 }), true, 'PoolScalingUp'],
    ['one that cannot start agents', outlook({ max: 4, desired: 2, fault }), false, 'PoolBlocked'],
    ['one of another capability', outlook({ max: 9, capabilities: new Set(['avatar']) }), false, undefined],
  ])('%s', (_, of, grows, reason) => {
    expect(mayGrow([of], 'voice')).toBe(grows);
    expect(explainWaiting([of], 'voice', others)?.reason).toBe(reason);
  });

  it('says how far it is, and how it stands otherwise', () => {
    expect(explainWaiting([outlook({ desired: 3 })], 'voice', others)?.message).toBe(
      'pool gpu is starting agents, 1 of 3 ready; 2 of 2 slots on 1 agent are busy.',
    );
    expect(
      explainWaiting([outlook({ max: 1 })], 'voice', { reason: 'NoAgents', message: 'x' })?.message,
    ).toBe('pool gpu is at its maximum of 1 agent.');
  });
});
