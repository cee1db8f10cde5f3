import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { status } from '@grpc/grpc-js';
import type { LiveCapability } from '@semblance/engine-api/live-engine';
import {
  GetInfoResponse,
  OpenResponse,
  PictureTransport,
} from '@semblance/proto/semblance/engine/live/v1/live_engine';
import { EndReason } from '@semblance/proto/semblance/live/v1/live';
import {
  echo,
  JPEG_INFO,
  type LiveMessage,
  type ScriptedSession,
  SOUND_INFO,
  soundOf,
  startScriptedLive,
} from '@semblance/testkit/engine-sidecar/scripted-live';
import { until } from '@semblance/testkit/gpu-agent/harness';
import { type SidecarRig, startSidecarRig } from '@semblance/testkit/live/sidecar-rig';
import { shippedVoice } from '@semblance/testkit/live/voices';
import pino from 'pino';
import sharp from 'sharp';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';

const VIDEO = 'full-live-swap';
const FAILED = EndReason.END_REASON_RENDER_FAILED;
const rigs: SidecarRig[] = [];
let settings: Record<LiveCapability, Record<string, string>>;
let messages: Record<LiveCapability, Uint8Array>;
let log: string[] = [];

beforeAll(async () => {
  settings = { voice: { voice: (await shippedVoice('calm-alto')).json }, [VIDEO]: {} };
  const create = { width: 64, height: 48, channels: 3, background: '#456' } as const;
  messages = { voice: new Uint8Array(1_920), [VIDEO]: await sharp({ create }).jpeg().toBuffer() };
});
afterEach(async () => {
  for (const rig of rigs.splice(0)) await rig.close();
  log = [];
});
const logger = pino({ level: 'debug' }, { write: (line) => void log.push(JSON.parse(line).msg) });

async function started(...[capability, script, change]: Parameters<typeof startSidecarRig>) {
  const rig = await startSidecarRig(capability, script, { logger, ...change });
  rigs.push(rig);
  return rig;
}

type Misbehaves = (session: ScriptedSession, message: LiveMessage) => void;
const sound = (sequence: bigint, bytes: number) => soundOf(sequence, new Uint8Array(bytes));
const picture = (sequence: bigint, jpeg: Uint8Array) =>
  ({ $case: 'picture', value: { sequence, data: { $case: 'jpeg', value: Buffer.from(jpeg) } } }) as const;

const GARBAGE: readonly (readonly [string, LiveCapability, Misbehaves])[] = [
  ['answers what it has not got', 'voice', (session) => session.answer(sound(9n, 2))],
  [
    'answers out of order',
    'voice',
    (session, { value: { sequence } }) => {
      if (sequence === 2n) session.answer(sound(2n, 2));
      if (sequence === 2n) session.answer(sound(1n, 2));
    },
  ],
  ['answers with half a sample', 'voice', (session) => session.answer(sound(1n, 3))],
  ['gives more sound than it gets', 'voice', (session) => session.answer(sound(1n, 100_000))],
  ['answers with a picture', 'voice', (session) => session.answer(picture(1n, messages[VIDEO]))],
  ['answers nothing in a message', 'voice', (session) => session.answer(undefined)],
  ['ends the session', 'voice', (session) => session.end()],
  ['ends it with an error', 'voice', (session) => session.end(status.INTERNAL)],
  ['answers with sound', VIDEO, (session) => session.answer(sound(1n, 2))],
  ['answers with what is no picture', VIDEO, (session) => session.answer(picture(1n, Buffer.from('no')))],
  [
    'answers with a picture of no kind',
    VIDEO,
    (session) => session.answer({ $case: 'picture', value: { sequence: 1n } }),
  ],
  [
    'answers in shared memory that there is none of',
    VIDEO,
    (session) =>
      session.answer({
        $case: 'picture',
        value: { sequence: 1n, data: { $case: 'shared', value: { slot: 0, width: 64, height: 48 } } },
      }),
  ],
  ['answers with 3 MiB', VIDEO, (session) => session.answer(picture(1n, new Uint8Array(3 * 1024 ** 2)))],
  [
    'answers with a hundred pictures',
    VIDEO,
    (session) => {
      for (let k = 0; k < 100; k++) session.answer(picture(1n, messages[VIDEO]));
    },
  ],
];

describe('a session', () => {
  it.each(GARBAGE)('of an engine that %s (%s) fails, and no other', async (_what, capability, misbehaves) => {
    const { rig, open, sidecar, engine, lost } = await started(capability);
    await rig.warm();
    const other = await open(settings[capability]);
    const { id, relay } = await open(settings[capability]);
    sidecar.state.script = { ...sidecar.state.script, converts: misbehaves };
    relay.send(messages[capability]);
    relay.send(messages[capability]);
    await relay.over;
    expect(relay.ended()).toMatchObject({ reason: FAILED, goingAway: false });
    await until(() => rig.live.sessions.get(id)?.state === 'ended', 'ended');
    await until(() => sidecar.sessions.size === 1, 'its place is free');
    sidecar.state.script = { ...sidecar.state.script, converts: echo };
    other.relay.send(messages[capability]);
    await other.relay.next();
    expect([engine.slots, lost()]).toEqual([2, 0]);
    await other.relay.close();
  });

  it.each([
    ['voice', 80],
    [VIDEO, 1],
  ] as const)('of %s whose engine answers nothing fails after some time', async (capability, count) => {
    const { rig, open } = await started(capability, { converts: () => {} }, { times: { hungMs: 500 } });
    await rig.warm();
    const { relay } = await open(settings[capability]);
    for (let k = 0; k < count; k++) relay.send(messages[capability]);
    await relay.over;
    expect(relay.ended()?.reason).toBe(FAILED);
    expect(log.join('')).toContain('has not answered for 0.5 s');
  });

  it('whose engine does not open it in time, or says what it must not, fails, and costs no slot', async () => {
    const opened = (value: object) => OpenResponse.fromPartial({ message: { $case: 'opened', value } });
    const faults = [
      'never',
      status.RESOURCE_EXHAUSTED,
      OpenResponse.fromPartial({}),
      opened({ note: 'x'.repeat(301) }),
      opened({ inputRate: 7_999 }),
      opened({ outputRate: 44_101 }),
      OpenResponse.fromPartial({ message: { $case: 'refusal', value: { message: 'no' } } }),
    ] as const;
    const { rig, engine, sidecar, dir } = await started('voice', {}, { times: { openMs: 500 } });
    await rig.warm();
    for (const fault of faults) {
      sidecar.state.script = { ...sidecar.state.script, opens: () => fault };
      const relay = rig.relay(await rig.claim({ settings: settings.voice }));
      await relay.over;
      expect(relay.ended()?.reason).toBe(FAILED);
    }
    expect(rig.live.sessions.held('voice')).toBe(0);
    expect(engine.slots).toBe(2);
    expect(await readdir(join(dir, 'live'))).toEqual([]);
  });

  it('that is ended while its engine opens it leaves no place taken', async () => {
    let answer = () => {};
    const { rig, sidecar } = await started('voice');
    await rig.warm();
    sidecar.state.script = {
      ...sidecar.state.script,
      opens: () => {
        answer();
        return OpenResponse.fromPartial({ message: { $case: 'opened', value: {} } });
      },
    };
    const asked = new Promise<void>((resolve) => (answer = resolve));
    const id = await rig.claim({ settings: settings.voice });
    await asked;
    await rig.end(id);
    expect(rig.live.sessions.held('voice')).toBe(0);
    await until(() => sidecar.sessions.size === 0, 'its place is free');
  });
});

describe('slots', () => {
  it('are those of the engine, at most as many as the owner wants, and none while it takes none', async () => {
    const { rig, engine, open, sidecar } = await started('voice', { info: { slots: 5 } }, { mostSlots: 2 });
    await rig.warm();
    expect(engine.slots).toBe(2);
    const { relay } = await open(settings.voice);
    const more = await open(settings.voice);
    await expect(rig.claim({ settings: settings.voice })).rejects.toMatchObject({
      code: status.RESOURCE_EXHAUSTED,
    });
    sidecar.state.serving = false;
    await until(() => engine.slots === 0, 'none');
    // Those that it has go on.
    relay.send(messages.voice);
    await relay.next();
    sidecar.state.serving = true;
    await until(() => engine.slots === 2, 'two again');
    await relay.close();
    await more.relay.close();
  });

  it('are fewer while the engine holds a session that is over', async () => {
    const { rig, engine, open, sidecar } = await started('voice', {}, { times: { endMs: 300 } });
    await rig.warm();
    sidecar.state.forgets = false;
    await (await open(settings.voice)).relay.close();
    await until(() => engine.slots === 1, 'one less');
    sidecar.sessions.clear();
    await until(() => engine.slots === 2, 'both');
  });
});

describe('a sidecar', () => {
  it('that goes takes its sessions with it, is waited for, and takes sessions again', async () => {
    const { rig, open, sidecar, socket, engine, lost, dir } = await started(VIDEO);
    await rig.warm();
    const { relay } = await open();
    await sidecar.kill();
    await relay.over;
    expect(relay.ended()?.reason).toBe(FAILED);
    await until(() => engine.slots === 0 && engine.warming, 'withdrawn');
    expect(lost()).toBe(1);
    expect(rig.live.statement).toEqual([{ name: VIDEO, slots: 0, warming: true }]);
    await writeFile(join(dir, 'live', 'left'), 'by a killed program');
    const again = await startScriptedLive(socket, { info: { ...JPEG_INFO, version: '2', slots: 3 } });
    await until(() => engine.slots === 3, 'offered again');
    expect(rig.live.statement[0]?.engine).toBe('scripted 2');
    const next = await open();
    next.relay.send(messages[VIDEO]);
    await next.relay.next();
    expect(await readdir(join(dir, 'live'))).not.toContain('left');
    await next.relay.close();
    await again.kill();
  });

  it('that does not say how it is ends its sessions', async () => {
    const { rig, open, sidecar, engine } = await started('voice', {}, { times: { deadAfterMs: 500 } });
    await rig.warm();
    const { relay } = await open(settings.voice);
    sidecar.state.answering = false;
    await relay.over;
    expect(relay.ended()?.reason).toBe(FAILED);
    expect(engine.slots).toBe(0);
    sidecar.state.answering = true;
    await until(() => engine.slots === 2, 'offered again');
  });

  const PICTURES = JPEG_INFO.pictures;
  it.each<[string, LiveCapability, Partial<GetInfoResponse>, string]>([
    ['carries something else', VIDEO, SOUND_INFO, 'it carries "voice", and is to carry full-live-swap'],
    ['has no place', 'voice', { slots: 0 }, 'it has 0 slots'],
    ['has a name of two words', 'voice', { name: 'my voice' }, 'its name is "my voice"'],
    ['takes pictures for sound', 'voice', { ...(PICTURES && { pictures: PICTURES }) }, 'and carries sound'],
    [
      'takes pictures in no way',
      VIDEO,
      { pictures: GetInfoResponse.fromPartial({ pictures: {} }).pictures },
      'no known form',
    ],
    [
      'takes pictures in shared memory, and there is none',
      VIDEO,
      {
        pictures: GetInfoResponse.fromPartial({
          pictures: { transports: [PictureTransport.PICTURE_TRANSPORT_SHARED_RGB], inFlight: 1 },
        }).pictures,
      },
      'its socket is not on a memory file system',
    ],
  ] as const)('that %s is not used, until it is another', async (_what, capability, info, reason) => {
    const { rig, sidecar, engine } = await started(capability, { info });
    await until(() => log.some((line) => line.includes(reason)), 'the log says why');
    expect(engine.slots).toBe(0);
    await expect(rig.claim({ capability })).rejects.toMatchObject({ code: status.RESOURCE_EXHAUSTED });
    sidecar.state.script = { info: capability === 'voice' ? SOUND_INFO : JPEG_INFO };
    await until(() => engine.slots === 2, 'used');
  });
});
