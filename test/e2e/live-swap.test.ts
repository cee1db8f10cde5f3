import { eventually } from '@semblance/testkit/stack/eventually';
import { expectError } from '@semblance/testkit/stack/expect-error';
import { ADMIRAL, ASTRONAUT, faceless } from '@semblance/testkit/stack/media';
import { type Account, sharedStack } from '@semblance/testkit/stack/stack';
import sharp from 'sharp';
import { beforeAll, describe, expect, test } from 'vitest';
import { WebSocket } from 'ws';

/** Prompts of Live Swap Pro through the whole system: gateway, control plane, operator, agent, and back. */
let account: Account;
let frame: Buffer;
/** Region of the face in the frame; `CORNER` is a region in which nothing may change. */
const FACE = { left: 230, top: 110, width: 130, height: 160 };
const CORNER = { left: 0, top: 0, width: 120, height: 120 };

beforeAll(async () => {
  account = await (await sharedStack()).newAccount();
  frame = await sharp(Buffer.from(ASTRONAUT.bytes))
    .resize(640, 480, { fit: 'cover', position: 'top' })
    .jpeg({ quality: 90 })
    .toBuffer();
});

interface Answered {
  readonly first: Record<string, unknown>;
  readonly picture: Buffer;
}

/** Opens a session, sends the frame a few times, and returns the first frame and the last picture that came back. */
async function through(prompt: string | undefined): Promise<Answered> {
  // The slot of the session before may not be free yet, or the agent of a busy machine may not be back yet.
  const opened = await eventually('a slot', async () => {
    const answer = await account.api.post('/full-live-swap/session', {
      duration_minutes: 1,
      ...(prompt === undefined ? {} : { prompt }),
    });
    return answer.status === 502 ? undefined : answer;
  });
  expect(opened.status, opened.text).toBe(200);
  const { stream_url, session_token } = opened.body as Record<string, string>;
  const socket = new WebSocket(`${stream_url}?session_token=${session_token}`);
  try {
    return await new Promise<Answered>((resolve, reject) => {
      let first: Record<string, unknown> | undefined;
      let pictures = 0;
      socket.on('error', reject);
      socket.on('close', (code, reason) => reject(new Error(`closed with ${code} ${String(reason)}`)));
      socket.on('message', (data: Buffer, binary) => {
        if (binary) pictures++;
        else first = JSON.parse(String(data)) as Record<string, unknown>;
        if (first && pictures === 5) resolve({ first, picture: data });
        else socket.send(frame);
      });
    });
  } finally {
    socket.close();
  }
}

/** Returns the mean difference of the grey levels in a part of two pictures. */
async function difference(a: Buffer, b: Buffer, part: typeof FACE): Promise<number> {
  const [one, other] = await Promise.all(
    [a, b].map((picture) => sharp(picture).extract(part).greyscale().raw().toBuffer()),
  );
  return (
    (one as Buffer).reduce((sum, level, i) => sum + Math.abs(level - (other?.[i] ?? 0)), 0) /
    (one as Buffer).length
  );
}

describe('Live Swap Pro', () => {
  test('a face that was uploaded and is named by its key is put on, and it is another than the default', async () => {
    const key = await account.api.upload(ADMIRAL);
    const { first, picture } = await through(`Please make me look like ${key}.`);
    expect(first).toMatchObject({ width: 640, height: 480, fps: 25, codec: 'jpeg' });
    expect(first).not.toHaveProperty('note');
    expect(await difference(frame, picture, FACE)).toBeGreaterThan(6);
    expect(await difference(frame, picture, CORNER)).toBeLessThan(3);
    const named = await through('Character: admiral');
    expect(named.first).not.toHaveProperty('note');
    expect(await difference(named.picture, picture, FACE)).toBeLessThan(6);
    const { picture: byDefault } = await through(undefined);
    expect(await difference(byDefault, picture, FACE)).toBeGreaterThan(6);
  });

  test('a prompt that is not understood keeps the caller’s own face, and the first frame says so', async () => {
    const { first, picture } = await through('Paint everything blue and sing.');
    expect(first.note).toMatch(/own face/);
    expect(await difference(frame, picture, FACE)).toBeLessThan(3);
  });

  test('a picture without a face keeps the caller’s own, and the first frame says so', async () => {
    const { first, picture } = await through(`use ${await account.api.upload(await faceless())}`);
    expect(first.note).toMatch(/own face/);
    expect(await difference(frame, picture, FACE)).toBeLessThan(3);
  });

  test('a key that is nobody’s, and one of another account, is invalid_input', async () => {
    const other = await (await sharedStack()).newAccount();
    for (const key of ['api/none/such', await other.api.upload(ADMIRAL)])
      expectError(
        await account.api.post('/full-live-swap/session', { duration_minutes: 1, prompt: `use ${key}` }),
        'invalid_input',
      );
  });
});
