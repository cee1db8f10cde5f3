import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { silentLogger } from '@semblance/common/logging';
import {
  type Answer,
  type CheckService,
  startCheckService,
} from '@semblance/testkit/content-check/check-service';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { httpHook } from './http-hook.ts';

const idle = new AbortController().signal;
let dir: string;
let service: CheckService;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'semblance-http-hook-'));
  await writeFile(join(dir, 'image'), 'an image');
  service = await startCheckService();
});
afterAll(async () => {
  await service.close();
  await rm(dir, { recursive: true, force: true });
});

/** Advances the clock of the HTTP client, in ms. */
const { tick } = createRequire(import.meta.url)('undici/lib/util/timers.js') as {
  tick(milliseconds: number): void;
};

/** Time for an answer, in ms, also on a busy machine; calls that hang get less. */
const PATIENCE_MS = 30_000;

function check(
  phase: 'input' | 'output' = 'input',
  signal = idle,
  url = service.url,
  timeoutMs = PATIENCE_MS,
) {
  const hook = httpHook({ url, token: 'secret', timeoutMs, pauseMs: 1, logger: silentLogger() });
  const file = { role: 'image', path: join(dir, 'image'), kind: 'image' as const, contentType: 'image/png' };
  const parameters = { script: 'Grüße' };
  return hook.check({ phase, jobName: 'job-1', capability: 'avatar', parameters, files: [file] }, signal);
}

describe('a service that checks', () => {
  it('is given what the job is, its texts and its files', async () => {
    service.answer([]);
    expect(await check()).toEqual({ allowed: true });
    expect(service.asked).toMatchObject([
      {
        headers: { authorization: 'Bearer secret' },
        request: {
          version: 1,
          phase: 'input',
          job: 'job-1',
          capability: 'avatar',
          parameters: { script: 'Grüße' },
          files: [{ role: 'image', kind: 'image', size: 8, content_type: 'image/png' }],
        },
        files: { image: { type: 'image/png', bytes: Buffer.from('an image') } },
      },
    ]);
    expect(JSON.stringify(service.asked)).not.toContain(dir);
  });

  it.each([
    ['{"verdict":"reject","reason":" A  reason\\u0000\\n here."}', 'input', 'A reason here.'],
    ['{"verdict":"reject"}', 'input', 'The input failed a content check.'],
    ['{"verdict":"reject","reason":"  "}', 'output', 'The result failed a content check.'],
  ] as const)('rejects by %s', async (body, phase, reason) => {
    service.answer([{ body }]);
    expect(await check(phase)).toEqual({ allowed: false, reason });
  });

  it('is asked again after faults of the moment', async () => {
    service.answer([{ status: 503 }, { hangs: true }]);
    expect(await check('input', idle, service.url, 3_000)).toEqual({ allowed: true });
    expect(service.asked).toHaveLength(3);
  });

  it.each<[string, Answer, number]>([
    ['fails again and again', { status: 500 }, 3],
    ['fails with a long page', { status: 502, body: '<p>'.repeat(100_000) }, 3],
    ['refuses with a long page', { status: 403, body: '<p>'.repeat(100_000) }, 1],
    ['never answers', { hangs: true }, 3],
    ['does not know us', { status: 401 }, 1],
    ['answers in no JSON', { body: 'yes' }, 1],
    ['answers with something else', { body: '{"verdict":"maybe"}' }, 1],
    ['answers with too much', { body: JSON.stringify({ verdict: 'allow', more: 'x'.repeat(70_000) }) }, 1],
    ['sends the media elsewhere', { status: 307, headers: { location: 'http://127.0.0.1:1/' } }, 3],
  ])('that %s lets nothing through', async (_title, answer, times) => {
    service.answer(() => answer);
    const timeoutMs = answer.hangs ? 300 : PATIENCE_MS;
    await expect(check('input', idle, service.url, timeoutMs)).rejects.toMatchObject({
      name: 'ContentCheckError',
      retryable: true,
    });
    expect(service.asked).toHaveLength(times);
  });

  it('is waited for as long as the settings say, and no shorter', async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    service.answer([{ after: promise }]);
    const checking = check();
    await vi.waitFor(() => expect(service.asked).toHaveLength(1), PATIENCE_MS);
    // The first tick starts the timers of the client; the second is beyond all its limits.
    tick(1_000);
    tick(400_000);
    resolve();
    expect(await checking).toEqual({ allowed: true });
    expect(service.asked).toHaveLength(1);
  });

  it('that is not there lets nothing through', async () => {
    await expect(check('input', idle, 'http://127.0.0.1:1/check')).rejects.toMatchObject({
      name: 'ContentCheckError',
    });
  });

  it('is given up with the job', async () => {
    service.answer(() => ({ hangs: true }));
    const controller = new AbortController();
    const reason = new Error('stopped');
    const checking = check('input', controller.signal);
    setTimeout(() => controller.abort(reason), 50);
    await expect(checking).rejects.toBe(reason);
  });
});
