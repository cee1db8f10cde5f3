import { randomBytes } from 'node:crypto';
import { status } from '@grpc/grpc-js';
import { silentLogger } from '@semblance/common/logging';
import { loadVoices } from '@semblance/common/voices/load-voices';
import type { ChangeSessionRequest } from '@semblance/proto/semblance/control/v1/control';
import type {
  ChangeSessionRequest as AgentRequest,
  ChangeSessionResponse as AgentResponse,
} from '@semblance/proto/semblance/live/v1/live';
import { type SessionRig, sessionRig, told } from '@semblance/testkit/control-plane/sessions';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { removeUploads } from '../media/removals.ts';
import { type Carrier, createSessionChanger } from './change.ts';
import { requestOwnEnd } from './list-sessions.ts';

const NEVER = new AbortController().signal;
const CHANGED: AgentResponse = { outcome: { $case: 'changed', value: { note: 'Fine.' } } };
const ENDED = { code: 'not_found', message: 'The session has ended.' };
const NOT_YOURS = { code: 'invalid_input', message: '`prompt` names a file key that is no upload of yours.' };

const voices = await loadVoices();
let rig: SessionRig;
/** What the agent was asked. */
let asked: { carrier: Carrier; request: AgentRequest }[];
let answer: () => Promise<AgentResponse>;
let change: ReturnType<typeof createSessionChanger>;
beforeAll(async () => {
  rig = await sessionRig();
  change = createSessionChanger({
    database: rig.db.database,
    voices,
    objects: { signGet: async (key) => `http://objects.test/${key}?signed` },
    certificateOf: async () => undefined,
    logger: silentLogger(),
    async ask(carrier, request) {
      asked.push({ carrier, request });
      return answer();
    },
  });
});
afterAll(() => rig.db.close());
beforeEach(() => {
  asked = [];
  answer = async () => CHANGED;
});

const to = (sessionId: string, prompt: string, connectionId = 'one'): ChangeSessionRequest => ({
  sessionId,
  connectionId,
  to: { $case: 'prompt', value: prompt },
});
const failing = (code: status) => async () => {
  throw Object.assign(new Error('as asked'), { code });
};

/** Opens a session that streams, of an account with a picture. */
async function streaming(capability = 'full-live-swap') {
  const account = await rig.db.account(1);
  const id = await rig.streaming(account.accountId, { capability });
  return { id, ...account };
}
/** Makes an upload of this kind; `done` false: it is under way. */
async function upload(accountId: string, { kind = 'image', done = true } = {}): Promise<string> {
  const key = `api/up-${randomBytes(8).toString('hex')}`;
  if (done)
    await rig.db.sql`
      insert into uploads (file_key, account_id, completed_at, kind, content_type, size_bytes, sha256)
      values (${key}, ${accountId}, now(), ${kind}, 'any/thing', 1, ${Buffer.alloc(32)})`;
  else await rig.db.sql`insert into uploads (file_key, account_id) values (${key}, ${accountId})`;
  return key;
}
const inputsOf = async (id: string) =>
  (await rig.db.sql`select inputs from sessions where id = ${id}`)[0]?.inputs;

describe('a change of a session', () => {
  it('reaches the agent that carries it, with a link to the picture that the prompt names', async () => {
    const { id, accountId } = await streaming();
    const key = await upload(accountId);
    expect(await change(to(id, `use ${key}`), NEVER)).toEqual(CHANGED);
    expect(asked).toEqual([
      {
        carrier: expect.objectContaining({
          agent: 'agent-1',
          agent_address: '127.0.0.1:9',
          account_id: accountId,
        }),
        request: {
          sessionId: id,
          incarnation: 'one',
          settings: { prompt: `use ${key}` },
          inputs: { face: { url: `http://objects.test/${key}?signed`, maxBytes: 0n } },
        },
      },
    ]);
    expect(await change(to(id, 'character: admiral'), NEVER)).toEqual(CHANGED);
    expect(asked[1]?.request).toMatchObject({ settings: { prompt: 'character: admiral' }, inputs: {} });
  });

  it('costs nothing, and changes nothing of what the session costs', async () => {
    const { id, accountId } = await streaming();
    await rig.report([told(id, 2_000)]);
    const before = [await rig.moneyOf(accountId), await rig.rowOf(id)];
    await change(to(id, 'character: admiral'), NEVER);
    expect([await rig.moneyOf(accountId), await rig.rowOf(id)]).toEqual(before);
    await rig.report([told(id, 3_000, { ended: true })]);
    expect(await rig.rowOf(id)).toMatchObject({ state: 'ended', streamed_ms: 3_000n });
  });

  it('keeps the new picture from being deleted while the session is open, and no longer the former one', async () => {
    const { id, accountId } = await streaming();
    const [former, latter] = [await upload(accountId), await upload(accountId)];
    for (const key of [former, latter]) await change(to(id, key), NEVER);
    expect(await inputsOf(id)).toEqual({ face: latter });
    const remove = async (key: string) =>
      (await rig.db.sql.begin((tx) => removeUploads(tx, accountId, [key], { by: 'retention' }))).fileKeys;
    expect(await remove(latter)).toEqual([]);
    expect(await remove(former)).toEqual([former]);
    expect(await change(to(id, former), NEVER).catch((error) => error)).toMatchObject(NOT_YOURS);
    expect(await inputsOf(id)).toEqual({ face: latter });
  });

  it('takes no upload of another account, none that is unfinished or unknown, and no other kind', async () => {
    const { id, accountId } = await streaming();
    const other = await rig.db.account(1);
    const theirs = await upload(other.accountId);
    const unfinished = await upload(accountId, { done: false });
    for (const key of [theirs, unfinished, 'api/none/such'])
      await expect(change(to(id, `use ${key}`), NEVER)).rejects.toMatchObject(NOT_YOURS);
    const video = await upload(accountId, { kind: 'video' });
    await expect(change(to(id, video), NEVER)).rejects.toMatchObject({
      code: 'invalid_input',
      message: '`prompt` names a file that is not an image.',
    });
    expect(await inputsOf(id)).toEqual({});
    await expect(change(to(id, 'x'.repeat(2_001)), NEVER)).rejects.toMatchObject({ code: 'invalid_input' });
    expect(asked).toEqual([]);
  });

  it('changes a voice to one that is offered', async () => {
    const { id } = await streaming('voice');
    const voiceId = (value: string): ChangeSessionRequest => ({
      ...to(id, ''),
      to: { $case: 'voiceId', value },
    });
    expect(await change(voiceId('calm-alto'), NEVER)).toEqual(CHANGED);
    const { settings } = asked[0]?.request ?? {};
    expect(JSON.parse(settings?.voice ?? '')).toMatchObject({ id: 'calm-alto' });
    await expect(change(voiceId('nobody'), NEVER)).rejects.toMatchObject({
      code: 'invalid_input',
      message: expect.stringContaining('GET /voices'),
    });
    await expect(change(to(id, 'character: admiral'), NEVER)).rejects.toMatchObject({
      code: 'invalid_input',
    });
    expect(asked).toHaveLength(1);
  });

  it('is for the connection of the session alone, and while it lasts', async () => {
    const { id, accountId } = await streaming();
    await expect(change(to(id, 'none', 'two'), NEVER)).rejects.toMatchObject(ENDED);
    for (const unknown of ['ses-00000000000000000000000000', "'; drop table sessions", ''])
      await expect(change(to(unknown, 'none'), NEVER)).rejects.toMatchObject(ENDED);
    await requestOwnEnd(rig.db.sql, { accountId, sessionId: id });
    await expect(change(to(id, 'none'), NEVER)).rejects.toMatchObject(ENDED);
    const ended = await streaming();
    await rig.report([told(ended.id, 0, { ended: true })]);
    await expect(change(to(ended.id, 'none'), NEVER)).rejects.toMatchObject(ENDED);
    expect(asked).toEqual([]);
  });

  it('says what the agent says', async () => {
    const { id } = await streaming();
    const refused: AgentResponse = {
      outcome: { $case: 'refused', value: { code: 'face_not_detected', message: 'None.' } },
    };
    answer = async () => refused;
    expect(await change(to(id, 'none'), NEVER)).toEqual(refused);
    for (const code of [status.NOT_FOUND, status.FAILED_PRECONDITION]) {
      answer = failing(code);
      await expect(change(to(id, 'none'), NEVER)).rejects.toMatchObject(ENDED);
    }
    for (const [code, word] of [
      [status.RESOURCE_EXHAUSTED, 'rate_limited'],
      // An agent of an earlier release.
      [status.UNIMPLEMENTED, 'capability_unavailable'],
      [status.UNAVAILABLE, 'internal_error'],
      [status.DEADLINE_EXCEEDED, 'internal_error'],
    ] as const) {
      answer = failing(code);
      expect(await change(to(id, 'none'), NEVER)).toMatchObject({
        outcome: { $case: 'refused', value: { code: word } },
      });
    }
  });

  it('does not wait for one another, nor for a report, in whatever order they come', async () => {
    const { id, accountId } = await streaming();
    const keys = await Promise.all(Array.from({ length: 4 }, () => upload(accountId)));
    await Promise.all([
      ...keys.map((key) => change(to(id, key), NEVER)),
      ...[1, 2, 3].map((ms) => rig.report([told(id, ms)])),
    ]);
    const last = (await inputsOf(id)) as { face: string };
    expect(keys).toContain(last.face);
    expect(asked).toHaveLength(4);
  });
});
