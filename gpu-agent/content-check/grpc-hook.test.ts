import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Server, ServerCredentials, type ServiceError, status } from '@grpc/grpc-js';
import { silentLogger } from '@semblance/common/logging';
import {
  type CheckRequest,
  CheckResponse,
  type CheckServiceServer,
  CheckServiceService,
  Phase,
  type Subject,
  Verdict,
} from '@semblance/proto/semblance/check/v1/check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { grpcHook } from './grpc-hook.ts';

const idle = new AbortController().signal;
const LARGE = 3_000_000;
interface Asked {
  token: string;
  subject?: Subject;
  files: Record<string, number>;
}
type Answer = 'hang' | { code: number } | { verdict: Verdict; reason?: string; early?: boolean };

let dir: string;
let server: Server;
let port: number;
let asked: Asked[];
let answers: Answer[];
const ALLOW: Answer = { verdict: Verdict.VERDICT_ALLOW };

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'semblance-grpc-hook-'));
  await writeFile(join(dir, 'image'), 'an image');
  await writeFile(join(dir, 'video'), Buffer.alloc(LARGE, 7));
  server = new Server();
  const service: CheckServiceServer = {
    check(call, callback) {
      const seen: Asked = { token: String(call.metadata.get('authorization')[0]), files: {} };
      asked.push(seen);
      const answer = answers.shift() ?? ALLOW;
      const reply = () => {
        if (answer === 'hang') return;
        if ('code' in answer) callback({ code: answer.code, details: 'as asked' } as ServiceError);
        else
          callback(null, CheckResponse.fromPartial({ verdict: answer.verdict, reason: answer.reason ?? '' }));
      };
      if (typeof answer === 'object' && 'early' in answer) return reply();
      call.on('data', ({ content }: CheckRequest) => {
        if (!content) return;
        if (content.$case === 'subject') seen.subject = content.value;
        else
          seen.files[content.value.role] = (seen.files[content.value.role] ?? 0) + content.value.data.length;
      });
      call.on('error', () => {});
      call.on('end', reply);
    },
  };
  server.addService(CheckServiceService, service);
  port = await new Promise<number>((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) =>
      error ? reject(error) : resolve(bound),
    );
  });
});
afterAll(async () => {
  server.forceShutdown();
  await rm(dir, { recursive: true, force: true });
});

/** Time for an answer, in ms, also on a busy machine; calls that hang get less. */
const PATIENCE_MS = 30_000;

async function check(next: Answer[], { signal = idle, at = port, timeoutMs = PATIENCE_MS } = {}) {
  asked = [];
  answers = next;
  const hook = grpcHook({
    url: `grpc://127.0.0.1:${at}`,
    token: 'secret',
    timeoutMs,
    pauseMs: 1,
    logger: silentLogger(),
  });
  const files = (['image', 'video'] as const).map((kind) => ({ role: kind, kind, path: join(dir, kind) }));
  try {
    return await hook.check(
      { phase: 'input', jobName: 'job-1', capability: 'motion-control', parameters: { a: 'ü' }, files },
      signal,
    );
  } finally {
    await hook.close();
  }
}

describe('a service that checks over gRPC', () => {
  it('is given what the job is, its texts and its files', async () => {
    expect(await check([])).toEqual({ allowed: true });
    expect(asked).toMatchObject([
      {
        token: 'Bearer secret',
        subject: {
          phase: Phase.PHASE_INPUT,
          job: 'job-1',
          capability: 'motion-control',
          parameters: { a: 'ü' },
          files: [
            { role: 'image', kind: 'image', size: 8n, contentType: '' },
            { role: 'video', kind: 'video', size: BigInt(LARGE) },
          ],
        },
        files: { image: 8, video: LARGE },
      },
    ]);
  });

  it('may reject, with a reason or without, before it has read everything', async () => {
    expect(await check([{ verdict: Verdict.VERDICT_REJECT, reason: ' No.\n', early: true }])).toEqual({
      allowed: false,
      reason: 'No.',
    });
    expect(await check([{ verdict: Verdict.VERDICT_REJECT }])).toEqual({
      allowed: false,
      reason: 'The input failed a content check.',
    });
  });

  it('is asked again after faults of the moment', async () => {
    const answers: Answer[] = [{ code: status.UNAVAILABLE }, 'hang'];
    expect(await check(answers, { timeoutMs: 3_000 })).toEqual({ allowed: true });
    expect(asked).toHaveLength(3);
  });

  it.each<[string, Answer[], number]>([
    ['does not know us', [{ code: status.UNAUTHENTICATED }], 1],
    ['says nothing', [{ verdict: Verdict.VERDICT_UNSPECIFIED }], 1],
    ['fails again and again', [1, 2, 3].map(() => ({ code: status.INTERNAL })), 3],
  ])('that %s lets nothing through', async (_title, next, times) => {
    await expect(check(next)).rejects.toMatchObject({ name: 'ContentCheckError' });
    expect(asked).toHaveLength(times);
  });

  it('that is not there lets nothing through, and is given up with the job', async () => {
    await expect(check([], { at: 1 })).rejects.toMatchObject({ name: 'ContentCheckError' });
    const controller = new AbortController();
    const reason = new Error('stopped');
    const checking = check(['hang'], { signal: controller.signal });
    setTimeout(() => controller.abort(reason), 50);
    await expect(checking).rejects.toBe(reason);
  });
});
