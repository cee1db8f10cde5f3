import { setTimeout as delay } from 'node:timers/promises';
import { status } from '@grpc/grpc-js';
import { silentLogger } from '@semblance/common/logging';
import type { GpuAgent } from '@semblance/crds/gen/gpuagents';
import { type TestDatabase, testDatabase } from '@semblance/testkit/control-plane/storage';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type AskForPreview, createFramePreviewer, type FramePreviewerOptions } from './frame-previewer.ts';

const JPEG = Buffer.from('ffd8ffd9', 'hex');

let db: TestDatabase;
beforeAll(async () => {
  db = await testDatabase();
});
afterAll(() => db.close());

function agent(name: string, capability = 'face-swap'): GpuAgent {
  return {
    metadata: { name },
    spec: {},
    status: {
      address: `${name}:1`,
      slots: 1,
      slotsUsed: 0,
      conditions: [
        {
          type: 'Ready',
          status: 'True',
          reason: 'Ready',
          message: '',
          lastTransitionTime: '2026-01-01T00:00:00Z',
        },
      ],
      engines: [{ name: 'e', version: '1', capabilities: [{ name: capability, slots: 1 }] }],
    },
  } as GpuAgent;
}

const failing = (code: status) => Object.assign(new Error('refused'), { code });
const answers: AskForPreview = async () => ({ jpeg: JPEG, refusal: undefined });

const previewer = (ask: AskForPreview, more: Partial<FramePreviewerOptions> = {}) =>
  createFramePreviewer({
    sql: db.sql,
    agents: { list: () => [agent('one'), agent('two')] },
    objects: { signGet: async (key) => `http://store/${key}` },
    logger: silentLogger(),
    ask,
    roomWaitMs: 0,
    ...more,
  });

const jobOf = (accountId: string) => ({
  accountId,
  capability: 'face-swap' as const,
  inputs: { video: 'api/v', face: 'api/f' },
  parameters: {},
  atUs: 5n,
});
const nobodyLeaves = () => new AbortController().signal;

describe('a preview', () => {
  test('is asked of the next agent while one has no room, or cannot', async () => {
    const { accountId } = await db.account();
    for (const code of [status.RESOURCE_EXHAUSTED, status.UNIMPLEMENTED, status.UNAVAILABLE]) {
      const asked: string[] = [];
      const preview = previewer(async (address, request, signal, of) => {
        asked.push(address);
        if (asked.length === 1) throw failing(code);
        expect(request).toMatchObject({ capability: 'face-swap', atUs: 5n });
        expect(request.inputs.video?.url).toBe('http://store/api/v');
        return answers(address, request, signal, of);
      });
      expect(Buffer.from(await preview(jobOf(accountId), nobodyLeaves()))).toEqual(JPEG);
      expect(asked).toHaveLength(2);
    }
  });

  test('waits a while for an agent with room', async () => {
    const { accountId } = await db.account();
    const asked: string[] = [];
    const preview = previewer(
      async (address, ...more) => {
        asked.push(address);
        // One agent is broken, the other is full for two rounds.
        if (address === 'one:1') throw failing(status.UNAVAILABLE);
        if (asked.length < 4) throw failing(status.RESOURCE_EXHAUSTED);
        return answers(address, ...more);
      },
      { roomWaitMs: 60_000 },
    );
    expect(Buffer.from(await preview(jobOf(accountId), nobodyLeaves()))).toEqual(JPEG);
    expect(asked.filter((address) => address === 'one:1')).toHaveLength(1);
    expect(asked.slice(2)).toEqual(['two:1', 'two:1']);
  });

  test.each<[string, AskForPreview, string]>([
    ['no agent has room', async () => Promise.reject(failing(status.RESOURCE_EXHAUSTED)), 'at_capacity'],
    ['no engine can', async () => Promise.reject(failing(status.UNIMPLEMENTED)), 'capability_unavailable'],
    ['an agent fails', async () => Promise.reject(failing(status.UNAVAILABLE)), 'at_capacity'],
    ['an agent answers nothing', async () => ({ jpeg: Buffer.alloc(0), refusal: undefined }), 'at_capacity'],
    [
      'the render would fail',
      async () => ({
        jpeg: Buffer.alloc(0),
        refusal: { code: 'face_not_detected', message: 'No face was found.', findings: undefined },
      }),
      'invalid_input',
    ],
    [
      'the file is no picture',
      async () => ({
        jpeg: Buffer.alloc(0),
        refusal: { code: 'unsupported_format', message: 'It is damaged.', findings: undefined },
      }),
      'unsupported_format',
    ],
  ])('is refused where %s', async (_, ask, code) => {
    const { accountId } = await db.account();
    await expect(previewer(ask)(jobOf(accountId), nobodyLeaves())).rejects.toMatchObject({ code });
  });

  test('is at capacity without an agent, and uses up none of the day', async () => {
    const { accountId } = await db.account();
    const preview = previewer(answers, { agents: { list: () => [] } });
    await expect(preview(jobOf(accountId), nobodyLeaves())).rejects.toMatchObject({ code: 'at_capacity' });
    expect(await db.sql`select 1 from frame_previews where account_id = ${accountId}`).toEqual([]);
  });

  test('ends with its time, and with its caller', async () => {
    const { accountId } = await db.account();
    const never: AskForPreview = (_, __, signal) =>
      new Promise((___, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
    await expect(previewer(never, { limitMs: 50 })(jobOf(accountId), nobodyLeaves())).rejects.toMatchObject({
      code: 'at_capacity',
      message: expect.stringContaining('took too long'),
    });
    const caller = new AbortController();
    const left = previewer(never)(jobOf(accountId), caller.signal);
    caller.abort(new Error('gone'));
    await expect(left).rejects.toThrow('gone');
  });
});

describe('previews of an account', () => {
  test('go one after the other, a few wait, and more are refused', async () => {
    const { accountId } = await db.account();
    let [now, most] = [0, 0];
    const preview = previewer(async () => {
      most = Math.max(most, ++now);
      await delay(20);
      now--;
      return { jpeg: JPEG, refusal: undefined };
    });
    const all = await Promise.allSettled(
      Array.from({ length: 9 }, () => preview(jobOf(accountId), nobodyLeaves())),
    );
    expect(all.filter(({ status }) => status === 'fulfilled')).toHaveLength(5);
    expect(most).toBe(1);
  });

  test('are so many in a day, exactly, from several control planes, and begin anew on the next', async () => {
    const { accountId } = await db.account();
    const other = await db.account();
    await db.sql`update settings set frame_previews_per_day = 3`;
    try {
      const planes = Array.from({ length: 6 }, () => previewer(answers));
      const ask = async (id = accountId) => {
        const all = await Promise.allSettled(planes.map((plane) => plane(jobOf(id), nobodyLeaves())));
        return all.filter(({ status }) => status === 'fulfilled').length;
      };
      expect(await ask()).toBe(3);
      await expect(planes[0]?.(jobOf(accountId), nobodyLeaves())).rejects.toMatchObject({
        code: 'at_capacity',
        message: expect.stringContaining('today'),
      });
      expect(await ask(other.accountId)).toBe(3);
      await db.sql`update frame_previews set day = day - 1 where account_id = ${accountId}`;
      expect(await ask()).toBe(3);
      await db.sql`update settings set frame_previews_per_day = 0`;
      const third = await db.account();
      expect(await ask(third.accountId)).toBe(0);
    } finally {
      await db.sql`update settings set frame_previews_per_day = default`;
    }
  });
});
