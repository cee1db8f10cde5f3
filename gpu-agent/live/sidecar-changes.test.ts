import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { OpenResponse } from '@semblance/proto/semblance/engine/live/v1/live_engine';
import { EndReason } from '@semblance/proto/semblance/live/v1/live';
import type { ScriptedLive } from '@semblance/testkit/engine-sidecar/scripted-live';
import { until } from '@semblance/testkit/gpu-agent/harness';
import { type HttpStore, startHttpStore } from '@semblance/testkit/gpu-agent/http-store';
import { CLIENT_RATE, type SidecarRig, startSidecarRig } from '@semblance/testkit/live/sidecar-rig';
import { shippedVoice } from '@semblance/testkit/live/voices';
import sharp from 'sharp';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';

const PORTRAIT = join(import.meta.dirname, '../../media/grace_hopper.jpg');
const KEY = 'api/uploads/face-1';

let store: HttpStore;
let portrait: Buffer;
let picture: Buffer;
const rigs: SidecarRig[] = [];
beforeAll(async () => {
  store = await startHttpStore();
  portrait = await readFile(PORTRAIT);
  store.objects.set('/face', portrait);
  picture = await sharp({ create: { width: 64, height: 48, channels: 3, background: '#456' } })
    .jpeg()
    .toBuffer();
});
afterEach(async () => {
  for (const rig of rigs.splice(0)) await rig.close();
});
afterAll(() => store.close());

async function started(
  capability: 'voice' | 'full-live-swap',
  { info, ...script }: ScriptedLive = {},
  more: Parameters<typeof startSidecarRig>[2] = {},
) {
  const rig = await startSidecarRig(capability, { ...script, info: { takesChanges: true, ...info } }, more);
  rigs.push(rig);
  await rig.rig.warm();
  return rig;
}

const face = () => ({ face: { url: store.url('/face'), maxBytes: 0n } });
const changed = (note = '') => ({ $case: 'changed', value: { note } });
const refusal = (code: string, message: unknown = expect.any(String)) => ({
  $case: 'refused',
  value: { code, message },
});

describe('a sidecar that takes prompts', () => {
  it('gets the new text in its stream, and says how it understood it', async () => {
    const { open, rig, sidecar } = await started('full-live-swap');
    const { id, relay } = await open({ prompt: 'red' });
    expect((await relay.ready).changeable).toEqual(['prompt']);
    relay.send(picture);
    await relay.next();
    expect(await rig.change(id, { settings: { prompt: 'blue' } })).toEqual(changed('prompt'));
    const session = sidecar.newest();
    expect(session?.changes).toEqual([{ settings: { prompt: 'blue' }, inputs: {} }]);
    relay.send(picture);
    expect((await relay.next()).sequence).toBe(2n);
    expect(sidecar.opened).toHaveLength(1);
  });

  it('reads a copy of the new picture until it has answered', async () => {
    let read: Buffer | undefined;
    const rig = await started('full-live-swap', {
      async changes(session, { inputs }) {
        read = await readFile(join(rig.dir, inputs.face ?? ''));
        session.answer({ $case: 'changed', value: { note: '' } });
      },
    });
    const { id, relay } = await rig.open({ prompt: `as ${KEY}` });
    for (let k = 0; k < 2; k++) {
      read = undefined;
      const to = { settings: { prompt: `as ${KEY}` }, inputs: face() };
      expect(await rig.rig.change(id, to)).toEqual(changed());
      expect(read).toEqual(portrait);
    }
    await relay.close();
    expect(await readdir(join(rig.dir, 'live'))).toEqual([]);
  });

  it('refuses in a sentence, and everything stays as it was', async () => {
    const { open, rig } = await started('full-live-swap', {
      changes: (session) =>
        session.answer({ $case: 'unchanged', value: { message: 'There is no such colour.' } }),
    });
    const { id, relay } = await open({ prompt: 'red' });
    const to = { settings: { prompt: 'ultraviolet' } };
    for (let k = 0; k < 2; k++)
      expect(await rig.change(id, to)).toEqual(refusal('invalid_input', 'There is no such colour.'));
    relay.send(picture);
    await relay.next();
  });

  it('is opened by a change where it refused the first prompt', async () => {
    const opens: ScriptedLive['opens'] = ({ settings }) =>
      settings.prompt === 'red'
        ? OpenResponse.fromPartial({ message: { $case: 'opened', value: { note: 'Red it is.' } } })
        : OpenResponse.fromPartial({ message: { $case: 'refusal', value: { message: 'No colour.' } } });
    const { open, rig, sidecar } = await started('full-live-swap', { opens });
    const { id, relay, first } = await open({ prompt: 'fog' });
    expect(first.note).toBe('Your own face is kept: No colour.');
    relay.send(picture);
    expect((await relay.next()).data.equals(picture)).toBe(true);
    expect(await rig.change(id, { settings: { prompt: 'mist' } })).toEqual(
      refusal('invalid_input', 'No colour.'),
    );
    expect(await rig.change(id, { settings: { prompt: 'red' } })).toEqual(changed('Red it is.'));
    relay.send(picture);
    await relay.next();
    expect(sidecar.newest()?.received).toHaveLength(1);
    await relay.close();
    await until(() => sidecar.sessions.size === 0, 'the session of the sidecar has ended');
  });

  it('is not asked when it takes no changes', async () => {
    const { open, rig, sidecar } = await started('full-live-swap', { info: { takesChanges: false } });
    const { id, relay } = await open({ prompt: 'red' });
    expect((await relay.ready).changeable).toEqual([]);
    expect(await rig.change(id, { settings: { prompt: 'blue' } })).toEqual(refusal('capability_unavailable'));
    expect(sidecar.newest()?.changes).toEqual([]);
  });
});

describe('a sidecar that gets faces', () => {
  const info = { takesPrompt: false };

  it('gets another face, none while the caller keeps the own, and the first one again', async () => {
    const { open, rig, sidecar } = await started('full-live-swap', { info });
    const { id, relay } = await open({ prompt: 'character: admiral' });
    const say = (prompt: string, inputs = {}) => rig.change(id, { settings: { prompt }, inputs });
    const pass = async () => {
      relay.send(picture);
      return (await relay.next()).data.equals(picture);
    };
    // A picture that went through the sidecar is marked.
    expect(await pass()).toBe(false);
    expect(await say(KEY, face())).toEqual(changed('face'));
    expect(await pass()).toBe(false);
    expect(await say('Keep my own face.')).toEqual(changed());
    expect(await pass()).toBe(true);
    expect(await say('character: astronaut')).toEqual(changed('face'));
    expect(await pass()).toBe(false);
    expect(sidecar.opened).toHaveLength(1);
    expect(sidecar.newest()?.changes).toHaveLength(2);
    expect(sidecar.newest()?.received).toHaveLength(3);
  });

  it('does not lose the face for a prompt that nobody understands, or a picture that nobody can read', async () => {
    const { open, rig, sidecar } = await started('full-live-swap', { info });
    const { id } = await open({ prompt: 'character: admiral' });
    const told = await rig.change(id, { settings: { prompt: 'Paint it blue.' } });
    expect(told).toEqual(refusal('invalid_input', expect.stringMatching(/^The prompt was not understood\./)));
    expect(await rig.change(id, { settings: { prompt: 'character: nobody' } })).toEqual(
      refusal('invalid_input'),
    );
    // The picture that the prompt names does not come with it.
    expect(await rig.change(id, { settings: { prompt: KEY } })).toEqual(refusal('unsupported_format'));
    expect(sidecar.newest()?.changes).toEqual([]);
  });

  it('begins in the middle of a session that kept the own face, and late answers of a former face are not shown', async () => {
    const held: (() => void)[] = [];
    let holds = false;
    const { open, rig, sidecar } = await started('full-live-swap', {
      info,
      converts(session, message) {
        if (holds) held.push(() => session.answer(message));
        else session.answer(message);
      },
    });
    const { id, relay } = await open({ prompt: 'none' });
    relay.send(picture);
    expect((await relay.next()).data.equals(picture)).toBe(true);
    expect(sidecar.opened).toEqual([]);
    expect(await rig.change(id, { settings: { prompt: 'character: admiral' } })).toEqual(changed());
    expect(Object.keys(sidecar.opened[0]?.inputs ?? {})).toEqual(['face']);
    holds = true;
    relay.send(picture);
    await until(() => held.length === 1, 'held');
    expect(await rig.change(id, { settings: { prompt: 'none' } })).toEqual(changed());
    relay.send(picture);
    const passed = await relay.next();
    expect([passed.sequence, passed.data.equals(picture)]).toEqual([3n, true]);
    for (const answer of held) answer();
    holds = false;
    expect(await rig.change(id, { settings: { prompt: 'character: admiral' } })).toEqual(changed('face'));
    relay.send(picture);
    const last = await relay.next();
    expect([last.sequence, last.data.equals(picture)]).toEqual([4n, false]);
    expect(relay.media).toEqual([]);
    await relay.close();
    await until(() => sidecar.sessions.size === 0, 'the session of the sidecar has ended');
  });
});

describe('a sidecar of sound', () => {
  it('gets another voice, and loses no sound', async () => {
    const { open, rig, sidecar } = await started('voice');
    const [first, second] = [await shippedVoice('calm-alto'), await shippedVoice('bass-narrator')];
    const { id, relay } = await open({ voice: first.json });
    expect((await relay.ready).changeable).toEqual(['voice_profile_id']);
    const sound = new Uint8Array((CLIENT_RATE / 50) * 2).fill(7);
    const sending = async () => {
      for (let k = 0; k < 50; k++) relay.send(sound.slice());
    };
    const [, outcome] = await Promise.all([sending(), rig.change(id, { settings: { voice: second.json } })]);
    expect(outcome).toEqual(changed('voice'));
    await until(() => relay.media.length === 50, 'all sound');
    expect(sidecar.newest()?.changes).toEqual([{ settings: { voice: second.json }, inputs: {} }]);
    const call = rig.change(id, { settings: { voice: '{"id": 7}' } });
    await expect(call).rejects.toMatchObject({ code: 3 });
  });

  it('cannot be changed in a session without a voice, which it does not carry', async () => {
    const { open } = await started('voice');
    const { relay } = await open({});
    expect((await relay.ready).changeable).toEqual([]);
  });
});

describe('a sidecar that breaks the rules of changes', () => {
  it.each<[string, ScriptedLive]>([
    [
      'answers a change that nobody asked for',
      {
        converts: (session) => session.answer({ $case: 'changed', value: { note: '' } }),
      },
    ],
    [
      'answers a change twice',
      {
        changes(session) {
          for (let k = 0; k < 2; k++) session.answer({ $case: 'changed', value: { note: '' } });
        },
      },
    ],
    [
      'says too much',
      {
        changes: (session) => session.answer({ $case: 'changed', value: { note: 'x'.repeat(301) } }),
      },
    ],
    [
      'refuses without a word',
      {
        changes: (session) => session.answer({ $case: 'unchanged', value: { message: ' ' } }),
      },
    ],
    ['ends instead', { changes: (session) => session.end() }],
  ])('%s: its session ends', async (_what, script) => {
    const { open, rig } = await started('full-live-swap', script);
    const { id, relay } = await open({ prompt: 'red' });
    const asked = rig.change(id, { settings: { prompt: 'blue' } }).catch(() => undefined);
    if (script.converts) relay.send(picture);
    await relay.over;
    await asked;
    expect(relay.ended()?.reason).toBe(EndReason.END_REASON_RENDER_FAILED);
  });

  it('does not answer a change: its session ends, and a change is no answer to a picture', async () => {
    const { open, rig } = await started(
      'full-live-swap',
      { changes() {} },
      { times: { hungMs: 1_000, openMs: 1_500 } },
    );
    const { id, relay } = await open({ prompt: 'red' });
    await expect(rig.change(id, { settings: { prompt: 'blue' } })).rejects.toMatchObject({ code: 5 });
    await relay.over;
    expect(relay.ended()?.reason).toBe(EndReason.END_REASON_RENDER_FAILED);
  });
});
