import { eventually } from '@semblance/testkit/stack/eventually';
import { expectError } from '@semblance/testkit/stack/expect-error';
import {
  type ChangingStream,
  connectChanging,
  connectStream,
  type SessionRecord,
} from '@semblance/testkit/stack/live-session';
import { ADMIRAL, ASTRONAUT, faceless } from '@semblance/testkit/stack/media';
import { type Account, type Stack, sharedStack } from '@semblance/testkit/stack/stack';
import sharp from 'sharp';
import { beforeAll, describe, expect, test } from 'vitest';

/** Changes of a session in the middle, which this service adds to its specification. */
let stack: Stack;
let account: Account;
let frame: Buffer;
/** Region of the face in the frame. */
const FACE = { left: 230, top: 110, width: 130, height: 160 };

beforeAll(async () => {
  stack = await sharedStack();
  account = await stack.newAccount({ balanceUsd: 100 });
  frame = await sharp(Buffer.from(ASTRONAUT.bytes))
    .resize(640, 480, { fit: 'cover', position: 'top' })
    .jpeg({ quality: 90 })
    .toBuffer();
}, 240_000);

/** Opens a session. Repeats that while tests beside it hold the few slots. */
const open = (path: string, body: object): Promise<SessionRecord> =>
  eventually(
    'a slot',
    async () => {
      const answer = await account.api.post(path, body);
      if (answer.status === 200) return answer.body as SessionRecord;
      expectError(answer, 'capacity_unavailable', 'capacity_warming', 'at_capacity');
      return undefined;
    },
    { withinMs: 100_000, everyMs: 500 },
  );
const swap = async (prompt: string) => {
  const session = await open('/full-live-swap/session', { duration_minutes: 1, prompt });
  return { session, stream: await connectChanging(session) };
};

/** Sends the frame, and returns the last of some pictures that come back for it. */
async function shown({ ws, media, received }: ChangingStream): Promise<Buffer> {
  for (let k = 0; k < 3; k++) {
    ws.send(frame);
    await received(media.length + 1);
  }
  return media.at(-1)?.data ?? Buffer.alloc(0);
}

/** Returns the mean difference of the grey levels of two faces. */
async function difference(a: Buffer, b: Buffer): Promise<number> {
  const [one = Buffer.alloc(0), other] = await Promise.all(
    [a, b].map((picture) => sharp(picture).extract(FACE).greyscale().raw().toBuffer()),
  );
  return one.reduce((sum, level, i) => sum + Math.abs(level - (other?.[i] ?? 0)), 0) / one.length;
}

describe('a session that is changed in the middle', () => {
  test('has another face from then on, and is charged for what it streams', async () => {
    const { session, stream } = await swap('Keep my own face.');
    expect(stream.fields).toEqual(['prompt']);
    expect((await shown(stream)).equals(frame)).toBe(true);
    const key = await account.api.upload(ADMIRAL);
    expect(await stream.ask({ type: 'change', id: '1', prompt: `use ${key}` })).toEqual({
      type: 'changed',
      id: '1',
    });
    expect(await difference(await shown(stream), frame)).toBeGreaterThan(6);
    expect(await stream.ask({ type: 'change', prompt: 'none' })).toEqual({ type: 'changed' });
    expect((await shown(stream)).equals(frame)).toBe(true);
    // An upload that a session has named last is not deleted while the session is open.
    const used = await account.api.upload(ADMIRAL);
    expect(await stream.ask({ type: 'change', prompt: used })).toEqual({ type: 'changed' });
    const deletion = await account.api.request('DELETE', `/uploads/${encodeURIComponent(used)}`);
    expectError(deletion, 'invalid_input');
    await stream.close();
    const entry = await eventually('the charge', async () => {
      const entries = (await account.api.get('/usage')).body as Record<string, unknown>[];
      return entries.find(({ id, status }) => id === session.session_id && status === 'succeeded');
    });
    const listed = (await account.api.get('/sessions')).body as Record<string, unknown>[];
    const { streamed_sec = 0 } = listed.find(({ session_id }) => session_id === session.session_id) as {
      streamed_sec?: number;
    };
    const rate = session.max_cost_usd / session.max_duration_sec;
    expect(entry.charged_usd).toBeCloseTo(rate * streamed_sec, 5);
    expect(streamed_sec).toBeGreaterThan(0);
  });

  test('keeps what it has when a change is refused, whose answer says why', async () => {
    const { stream } = await swap('character: admiral');
    const before = await shown(stream);
    const other = await stack.newAccount();
    const theirs = await other.api.upload(ADMIRAL);
    const sky = await account.api.upload(await faceless());
    for (const [frame, code, message] of [
      [{ type: 'change', prompt: `use ${theirs}` }, 'invalid_input', /no upload of yours/],
      [{ type: 'change', prompt: sky }, 'face_not_detected', /face/],
      [{ type: 'change', prompt: 'Paint everything blue.' }, 'invalid_input', /not understood/],
      [{ type: 'change' }, 'invalid_input', /prompt is required/],
      [{ type: 'reset' }, 'invalid_input', /change/],
    ] as const)
      expect(await stream.ask(frame)).toEqual({
        type: 'change_refused',
        code,
        message: expect.stringMatching(message),
      });
    expect(await difference(await shown(stream), before)).toBeLessThan(4);
    await stream.close();
  });

  test('is not changed too often', async () => {
    const { stream } = await swap('none');
    const codes: unknown[] = [];
    for (let k = 0; k < 20 && codes.at(-1) !== 'rate_limited'; k++)
      codes.push((await stream.ask({ type: 'change', prompt: 'none' })).code);
    expect(codes.at(-1)).toBe('rate_limited');
    expect((await shown(stream)).equals(frame)).toBe(true);
    await stream.close();
  });

  test('is told where nothing can be changed, as with a voice of the service’s own engine', async () => {
    const stream = await connectChanging(await open('/voice/session', { duration_minutes: 1 }));
    expect(stream.fields).toEqual([]);
    expect(await stream.ask({ type: 'change', voice_profile_id: 'calm-alto' })).toMatchObject({
      type: 'change_refused',
      code: 'capability_unavailable',
    });
    await stream.close();
  });

  test('is not, for a client that does not ask for it: a text frame closes its socket', async () => {
    const stream = await connectStream(await open('/voice/session', { duration_minutes: 1 }));
    stream.ws.send(JSON.stringify({ type: 'change', voice_profile_id: 'calm-alto' }));
    expect((await stream.closed).code).toBe(1003);
  });
});
