import { ApiError } from '@semblance/common/errors';
import type { ChangeSessionResponse } from '@semblance/proto/semblance/control/v1/control';
import { PICTURE_READY, VOICE_READY } from '@semblance/testkit/gateway/agent-double';
import { CHUNK, jpegOf, StreamClient, streamRig } from '@semblance/testkit/gateway/stream-rig';
import { beforeEach, describe, expect, it } from 'vitest';
import { MAX_TEXT_BYTES } from './changes.ts';

const rig = streamRig();
const CHANGED: ChangeSessionResponse = { outcome: { $case: 'changed', value: { note: '' } } };

beforeEach(() => {
  rig.live.onChange = () => CHANGED;
  rig.agent.ready = { ...PICTURE_READY, changeable: ['prompt'] };
});

/** Opens a session of pictures whose client asks for changes, and returns what it hears after the format. */
async function changing(capability: 'voice' | 'full-live-swap' = 'full-live-swap') {
  const session = await rig.open(capability);
  const client = new StreamClient(`${rig.urlOf(session)}&changes=on`);
  await client.ready();
  const heard = () => client.texts.slice(1).map((text) => JSON.parse(text) as Record<string, unknown>);
  /** Sends a frame, and returns its answer. */
  const say = async (frame: unknown) => {
    const before = client.texts.length;
    client.ws.send(typeof frame === 'string' ? frame : JSON.stringify(frame));
    await expect.poll(() => client.texts.length, { timeout: 30_000, interval: 2 }).toBe(before + 1);
    return heard().at(-1);
  };
  await expect.poll(() => client.texts.length).toBe(2);
  return { session, client, heard, say };
}

describe('a client that asks for changes', () => {
  it('is told what it can change, asks, and is answered, while its media flow', async () => {
    const { session, client, heard, say } = await changing();
    expect(heard()).toEqual([{ type: 'changeable', fields: ['prompt'] }]);
    const answer = Promise.withResolvers<ChangeSessionResponse>();
    rig.live.onChange = () => answer.promise;
    client.ws.send(JSON.stringify({ type: 'change', id: 'a', prompt: 'character: admiral' }));
    await expect.poll(() => rig.live.changes.length).toBeGreaterThan(0);
    const connectionId = rig.live.sessions.get(session.session_id)?.connectionId;
    expect(rig.live.changes.at(-1)).toEqual({
      sessionId: session.session_id,
      connectionId,
      to: { $case: 'prompt', value: 'character: admiral' },
    });
    client.ws.send(jpegOf());
    await client.received(1);
    expect(heard()).toHaveLength(1);
    answer.resolve({ outcome: { $case: 'changed', value: { note: 'Gold.' } } });
    await expect.poll(heard).toHaveLength(2);
    expect(heard()[1]).toEqual({ type: 'changed', id: 'a', note: 'Gold.' });
    rig.live.onChange = () => CHANGED;
    expect(await say({ type: 'change', prompt: 'none', more: 1 })).toEqual({ type: 'changed' });
    client.ws.close(1000);
    // What is charged is what was streamed.
    expect(await rig.final(session.session_id)).toEqual({ streamedMs: 40, reason: undefined });
  });

  it('changes the voice of a session of sound', async () => {
    rig.agent.ready = { ...VOICE_READY, changeable: ['voice_profile_id'] };
    const { client, say } = await changing('voice');
    expect(await say({ type: 'change', voice_profile_id: 'calm-alto' })).toEqual({ type: 'changed' });
    expect(rig.live.changes.at(-1)?.to).toEqual({ $case: 'voiceId', value: 'calm-alto' });
    client.ws.send(CHUNK);
    await client.received(1);
    client.ws.close(1000);
  });

  it('hears why a change is refused, by whoever refuses it, and streams on', async () => {
    const { client, say } = await changing();
    rig.live.onChange = () => ({
      outcome: { $case: 'refused', value: { code: 'face_not_detected', message: 'No face was found.' } },
    });
    expect(await say({ type: 'change', id: 'x', prompt: 'api/uploads/a' })).toEqual({
      type: 'change_refused',
      id: 'x',
      code: 'face_not_detected',
      message: 'No face was found.',
    });
    rig.live.onChange = () => {
      throw new ApiError('invalid_input', '`prompt` names a file key that is no upload of yours.');
    };
    expect(await say({ type: 'change', prompt: 'api/uploads/b' })).toMatchObject({
      code: 'invalid_input',
      message: '`prompt` names a file key that is no upload of yours.',
    });
    rig.live.onChange = () => {
      throw new Error('a table of the database is away');
    };
    const failed = await say({ type: 'change', prompt: 'api/uploads/c' });
    expect(failed).toMatchObject({ type: 'change_refused', code: 'internal_error' });
    expect(String(failed?.message)).not.toMatch(/table/);
    client.ws.send(jpegOf());
    await client.received(1);
    client.ws.close(1000);
  });

  it.each<[string, unknown, RegExp]>([
    ['no JSON', 'character: admiral', /JSON object/],
    ['another type', { type: 'ending' }, /`type` "change"/],
    ['a list', [], /JSON object/],
    ['null', 'null', /JSON object/],
    ['nothing to change', { type: 'change' }, /prompt is required/],
    ['an empty prompt', { type: 'change', prompt: ' ' }, /prompt must not be empty/],
    ['a prompt that is no text', { type: 'change', prompt: ['x'] }, /prompt must be a string/],
    ['a prompt that is too long', { type: 'change', prompt: 'x'.repeat(2_001) }, /at most 2,000/],
    ['NUL', { type: 'change', prompt: 'x\0' }, /well-formed/],
    ['the field of the other capability', { type: 'change', voice_profile_id: 'a' }, /prompt is required/],
    ['an id that is too long', { type: 'change', id: 'x'.repeat(65), prompt: 'a' }, /`id`/],
    ['an id that is no text', { type: 'change', id: 7, prompt: 'a' }, /`id`/],
    ['too many bytes', `"${'x'.repeat(MAX_TEXT_BYTES)}"`, /at most 32768 bytes/],
    ['much nesting', '['.repeat(10_000), /JSON object/],
  ])('is refused for %s, and nobody is asked', async (_what, frame, message) => {
    const asked = rig.live.changes.length;
    const { client, say } = await changing();
    const answer = await say(frame);
    expect(answer).toMatchObject({ type: 'change_refused', code: 'invalid_input' });
    expect(answer?.message).toMatch(message);
    expect(rig.live.changes).toHaveLength(asked);
    client.ws.send(jpegOf());
    await client.received(1);
    client.ws.close(1000);
  });

  it('accepts a prompt of 2,000 characters in the longest form that JSON has', async () => {
    const { client, say } = await changing();
    const escaped = '\\ud83d\\ude00'.repeat(2_000);
    expect(await say(`{"type":"change","prompt":"${escaped}"}`)).toEqual({ type: 'changed' });
    expect(rig.live.changes.at(-1)?.to?.value).toBe('😀'.repeat(2_000));
    client.ws.close(1000);
  });

  it('is told that it cannot change what its engine cannot', async () => {
    for (const changeable of [[], ['seed']]) {
      rig.agent.ready = { ...PICTURE_READY, changeable };
      const { client, heard, say } = await changing();
      expect(heard()).toEqual([{ type: 'changeable', fields: [] }]);
      expect(await say({ type: 'change', prompt: 'a' })).toMatchObject({ code: 'capability_unavailable' });
      client.ws.close(1000);
    }
  });

  it('changes once at a time, a few times at once, and then not too often', async () => {
    const { client, heard, say } = await changing();
    const held = Promise.withResolvers<ChangeSessionResponse>();
    rig.live.onChange = () => held.promise;
    client.ws.send(JSON.stringify({ type: 'change', id: 'first', prompt: 'a' }));
    expect(await say({ type: 'change', id: 'second', prompt: 'b' })).toMatchObject({
      id: 'second',
      code: 'rate_limited',
      message: 'The change before is still under way.',
    });
    held.resolve(CHANGED);
    await expect.poll(() => heard().at(-1)).toEqual({ type: 'changed', id: 'first' });
    rig.live.onChange = () => CHANGED;
    const outcomes: unknown[] = [];
    for (let k = 0; k < 30 && outcomes.at(-1) !== 'rate_limited'; k++)
      outcomes.push((await say({ type: 'change', prompt: 'c' }))?.code);
    expect(outcomes.at(-1)).toBe('rate_limited');
    // Five at the start, of which one was used.
    expect(outcomes.length).toBeGreaterThanOrEqual(5);
    client.ws.close(1000);
  });

  it('is disconnected when it says more than can be answered', async () => {
    const { client } = await changing();
    for (let k = 0; k < 200; k++) client.ws.send('{}');
    expect(await client.end()).toMatchObject({
      code: 1008,
      reason: 'too_fast: more text frames than can be answered',
    });
  });

  it('hears nothing of a change that is under way when it goes', async () => {
    const { client, session } = await changing();
    const held = Promise.withResolvers<ChangeSessionResponse>();
    rig.live.onChange = () => held.promise;
    client.ws.send(JSON.stringify({ type: 'change', prompt: 'a' }));
    await expect.poll(() => rig.live.changes.at(-1)?.sessionId).toBe(session.session_id);
    client.ws.close(1000);
    expect(await client.end()).toMatchObject({ code: 1000 });
    expect(await rig.final(session.session_id)).toEqual({ streamedMs: 0, reason: undefined });
    held.resolve(CHANGED);
  });
});

it('a client that does not ask for changes is disconnected for a text frame, as before', async () => {
  const { client } = await rig.stream('full-live-swap');
  expect(client.texts).toHaveLength(1);
  client.ws.send(JSON.stringify({ type: 'change', prompt: 'a' }));
  expect(await client.end()).toMatchObject({ code: 1003 });
});
