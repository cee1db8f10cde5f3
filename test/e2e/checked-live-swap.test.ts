import { createHash } from 'node:crypto';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually } from '@semblance/testkit/stack/eventually';
import { liveOffered } from '@semblance/testkit/stack/live-client';
import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/stack/media';
import { type Account, type Stack, stackAt } from '@semblance/testkit/stack/stack';
import { type StackProcess, startStackProcess } from '@semblance/testkit/stack/stack-process';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { WebSocket } from 'ws';

/** Content checks of the inputs of live sessions, through gateway, control plane, operator and agent. */
let dir: string;
let running: StackProcess;
let stack: Stack;
let account: Account;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'semblance-checked-live-'));
  // The agent is another user where root starts the stack.
  await chmod(dir, 0o755);
  const [words, hashes] = [join(dir, 'words.txt'), join(dir, 'hashes.txt')];
  await writeFile(words, 'admiral\n');
  await writeFile(hashes, `sha256 ${createHash('sha256').update(ADMIRAL.bytes).digest('hex')}\n`);
  running = await startStackProcess({
    env: {
      SEMBLANCE_CONTENT_CHECK: 'hash-list,word-list',
      SEMBLANCE_CONTENT_WORD_LIST: words,
      SEMBLANCE_CONTENT_HASH_LIST: hashes,
      SEMBLANCE_LIVE_VIDEO_SLOTS: '1',
      SEMBLANCE_LIVE_VOICE_SLOTS: '1',
    },
  });
  stack = stackAt(running.file);
  account = await stack.newAccount();
  await liveOffered(stack);
});
afterAll(async () => {
  await running?.close();
  await rm(dir, { recursive: true, force: true });
});

interface Refusal {
  readonly status: number;
  readonly error: { readonly code: string; readonly message: string };
}

interface Told {
  readonly first?: object;
  readonly refusal?: Refusal;
  readonly session: string;
}

/** Connects a session with this prompt; returns its first frame, or why its socket is refused. */
const connected = (prompt: string): Promise<Told> =>
  eventually('an answer of the checks', async () => {
    const told = await connectedOnce(prompt);
    // On a busy machine the checks may take too long; the client must then open another session.
    return told.refusal?.status === 502 ? undefined : told;
  });

async function connectedOnce(prompt: string): Promise<Told> {
  const opened = await eventually('a slot', async () => {
    const answer = await account.api.post('/full-live-swap/session', { duration_minutes: 1, prompt });
    // The slot of the session before may not be free yet.
    return answer.status === 502 ? undefined : answer;
  });
  expect(opened.status, opened.text).toBe(200);
  const { stream_url, session_token, session_id: session } = opened.body as Record<string, string>;
  const socket = new WebSocket(`${stream_url}?session_token=${session_token}`);
  try {
    return await new Promise((resolve, reject) => {
      socket.on('error', reject);
      socket.on('message', (data) => resolve({ first: JSON.parse(String(data)), session: session ?? '' }));
      socket.on('unexpected-response', (_request, response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('end', () => {
          const { error } = JSON.parse(Buffer.concat(chunks).toString());
          resolve({ refusal: { status: response.statusCode ?? 0, error }, session: session ?? '' });
        });
      });
    });
  } finally {
    socket.close();
  }
}

const usageOf = (session: string) =>
  eventually('its usage entry', async () => {
    const { body } = await account.api.get('/usage');
    const entry = (body as { id: string; status: string }[]).find(({ id }) => id === session);
    return entry && !['queued', 'processing'].includes(entry.status) ? entry : undefined;
  });

test.each([
  [
    'names a picture on a list',
    async () => `use ${await account.api.upload(ADMIRAL)}`,
    'The input face is not allowed here.',
  ],
  [
    'has words of a list',
    async () => 'Become the admiral',
    'The prompt contains words that are not allowed here.',
  ],
])('a prompt that %s is refused at the socket, and costs nothing', async (_what, promptOf, reason) => {
  const { refusal, session } = await connected(await promptOf());
  expect(refusal).toEqual({
    status: 400,
    error: {
      code: 'invalid_input',
      message: `A content check rejected what the session was opened with: ${reason}`,
    },
  });
  expect(await usageOf(session)).toMatchObject({ status: 'failed', reason: 'no_stream', charged_usd: 0 });
  await eventually('its LiveSession to say so', async () => {
    const text = await stack.kubectl(['get', 'livesession', session, '-o', 'json']);
    const { status } = JSON.parse(text) as { status: { conditions: { reason: string; message: string }[] } };
    return status.conditions.some(
      (each) => each.reason === 'ContentRejected' && each.message.includes(reason),
    )
      ? true
      : undefined;
  });
});

test('another picture is worn', async () => {
  const { first } = await connected(`use ${await account.api.upload(ASTRONAUT)}`);
  expect(first).toMatchObject({ codec: 'jpeg' });
  expect(first).not.toHaveProperty('note');
});
