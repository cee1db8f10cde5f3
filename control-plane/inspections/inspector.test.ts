import { status } from '@grpc/grpc-js';
import { GrpcError } from '@semblance/common/grpc/server';
import type { GpuAgent } from '@semblance/crds/gen/gpuagents';
import type { InspectRequest, InspectResponse } from '@semblance/proto/semblance/agent/v1/inspection';
import { pino } from 'pino';
import { describe, expect, it } from 'vitest';
import { type AskForInspection, createInspector, type InspectedJob } from './inspector.ts';

const NEVER = new AbortController().signal;
const JOB: InspectedJob = {
  accountId: 'account',
  capability: 'face-swap',
  inputs: { video: 'api/video', face: 'api/face' },
  parameters: { output_resolution_p: '480' },
};
const NOTHING: InspectResponse = {
  findings: { hints: [], models: [], options: {}, mapped: [] },
  refusal: undefined,
};

function agent(address: string, more: object = {}, ready = 'True'): GpuAgent {
  const engines = [{ name: 'e', version: '1', capabilities: [{ name: 'face-swap', slots: 1 }] }];
  const condition = { type: 'Ready', status: ready, reason: 'Test', message: '', lastTransitionTime: '' };
  const status = { address, engines, slots: 2, slotsUsed: 0, conditions: [condition], ...more };
  return { metadata: { name: address }, spec: {}, status } as unknown as GpuAgent;
}

function inspector(ask: AskForInspection, agents = [agent('a')], limitMs?: number) {
  return createInspector({
    agents: { list: () => agents },
    objects: { signGet: async (key, { audience }) => `http://${audience}/${key}` },
    logger: pino({ level: 'silent' }),
    ask,
    limitMs,
  });
}
const failing = (code: status) => async () => Promise.reject(new GrpcError(code, 'as asked'));
const reasonOf = (reason: string) => ({
  outcome: { $case: 'notInspected', value: { reason, message: expect.stringMatching(/^[A-Z].*\.$/) } },
});

describe('an inspection', () => {
  it('sends an agent links to the pictures alone, and tells of inputs by their fields', async () => {
    const requests: InspectRequest[] = [];
    const inspect = inspector(async (_address, request) => {
      requests.push(request);
      return {
        findings: {
          faces: { found: -1, changed: 0, left: [] },
          hints: [
            { code: 'face_small', message: 'm'.repeat(999), input: 'face' },
            { code: 'No Code', message: 'x' },
          ],
          models: [],
          options: {},
          mapped: [],
        },
        refusal: undefined,
      };
    });
    expect(await inspect(JOB, NEVER)).toEqual({
      outcome: {
        $case: 'inspected',
        value: {
          details: {
            faces: { found: 0, changed: 0, left: [] },
            hints: [{ code: 'face_small', message: `${'m'.repeat(299)}…`, input: 'face_key' }],
            models: [],
            options: {},
            mapped: [],
          },
        },
      },
    });
    expect(requests).toEqual([
      {
        inspectionId: expect.stringMatching(/^[a-z0-9]+$/),
        capability: 'face-swap',
        inputs: { face: { url: 'http://internal/api/face', maxBytes: 0n, key: 'api/face' } },
        parameters: { output_resolution_p: '480' },
      },
    ]);
  });

  it('tells of a refusal', async () => {
    const refusal = { code: 'face_not_detected', message: 'No face.' };
    const inspect = inspector(async () => ({ findings: undefined, refusal }));
    expect(await inspect(JOB, NEVER)).toEqual({
      outcome: { $case: 'refused', value: { error: refusal, details: undefined } },
    });
  });

  it('goes to agents that are ready and can do it, the freest first, until one answers', async () => {
    const asked: string[] = [];
    const agents = [
      agent('full', { slotsUsed: 2 }),
      agent('free'),
      agent('half', { slotsUsed: 1 }),
      agent('gone', {}, 'Unknown'),
      agent('draining', { draining: true }),
      agent('other', {
        engines: [{ name: 'e', version: '1', capabilities: [{ name: 'avatar', slots: 1 }] }],
      }),
    ];
    const inspect = inspector(async (address) => {
      asked.push(address);
      if (address !== 'full') throw new GrpcError(status.RESOURCE_EXHAUSTED, 'busy');
      return NOTHING;
    }, agents);
    expect((await inspect(JOB, NEVER)).outcome?.$case).toBe('inspected');
    expect(asked).toEqual(['free', 'half', 'full']);
  });

  it.each([
    ['busy', status.RESOURCE_EXHAUSTED],
    ['unsupported', status.UNIMPLEMENTED],
    ['failed', status.UNAVAILABLE],
    ['failed', status.INTERNAL],
    ['timed_out', status.DEADLINE_EXCEEDED],
  ])('that no agent makes is not made, and says why: %s', async (reason, code) => {
    expect(await inspector(failing(code))(JOB, NEVER)).toEqual(reasonOf(reason));
  });

  it('without an agent, or without a picture, is not made', async () => {
    const never: AskForInspection = async () => Promise.reject(new Error('nobody is asked'));
    expect(await inspector(never, [])(JOB, NEVER)).toEqual(reasonOf('no_agent'));
    const inputs = { video: 'api/video', audio: 'api/audio' };
    const lipSync = { ...JOB, capability: 'lip-sync', inputs } as const;
    expect(await inspector(never)(lipSync, NEVER)).toEqual(reasonOf('no_picture'));
  });

  it('whose links cannot be signed is not made', async () => {
    const inspect = createInspector({
      agents: { list: () => [agent('a')] },
      objects: { signGet: () => Promise.reject(new Error('no store')) },
      logger: pino({ level: 'silent' }),
      ask: async () => NOTHING,
    });
    expect(await inspect(JOB, NEVER)).toEqual(reasonOf('failed'));
  });

  const hangs: AskForInspection = (_address, _request, signal) =>
    new Promise((_, reject) => {
      if (signal.aborted) reject(signal.reason);
      signal.addEventListener('abort', () => reject(signal.reason));
    });

  it('that takes too long is given up', async () => {
    expect(await inspector(hangs, undefined, 20)(JOB, NEVER)).toEqual(reasonOf('timed_out'));
  });

  it('ends at the agent when its caller leaves', async () => {
    const gone = new AbortController();
    const looking = inspector(hangs)(JOB, gone.signal);
    gone.abort(new Error('gone'));
    await expect(looking).rejects.toThrow('gone');
  });
});

describe('inspections of one account', () => {
  it('go one after the other, beside those of others', async () => {
    const under = new Map<string, number>();
    let [most, widest] = [0, 0];
    const ends: (() => void)[] = [];
    const inspect = inspector(async (_address, { parameters }) => {
      const { who = '' } = parameters;
      under.set(who, (under.get(who) ?? 0) + 1);
      most = Math.max(most, under.get(who) ?? 0);
      widest = Math.max(
        widest,
        [...under.values()].reduce((sum, one) => sum + one),
      );
      await new Promise<void>((resolve) => ends.push(resolve));
      under.set(who, (under.get(who) ?? 0) - 1);
      return NOTHING;
    });
    const of = (who: string) => inspect({ ...JOB, accountId: who, parameters: { who } }, NEVER);
    const all = [of('x'), of('x'), of('x'), of('y')];
    let settled = 0;
    for (const one of all) void one.then(() => settled++);
    while (settled < all.length) {
      await new Promise((resolve) => setImmediate(resolve));
      if (ends.length >= 2 || settled > 0) ends.shift()?.();
    }
    expect([most, widest]).toEqual([1, 2]);
  });

  it('that leave while they wait let the next one pass', async () => {
    const first = Promise.withResolvers<void>();
    let asked = 0;
    const inspect = inspector(async () => {
      if (++asked === 1) await first.promise;
      return NOTHING;
    });
    const gone = new AbortController();
    const all = [inspect(JOB, NEVER), inspect(JOB, gone.signal), inspect(JOB, NEVER)];
    gone.abort(new Error('gone'));
    await expect(all[1]).rejects.toThrow('gone');
    expect(asked).toBe(1);
    first.resolve();
    await Promise.all([all[0], all[2]]);
    expect(asked).toBe(2);
  });
});
