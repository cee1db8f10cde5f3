/** @module-tag python */

import { existsSync } from 'node:fs';
import { chmod, chown, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { startProgram } from '@semblance/gpu-agent/conformance/program';
import { NOBODY } from '@semblance/local/unprivileged';
import { pythonEnv } from '@semblance/testkit/engine-sidecar/python-env';
import { eventually } from '@semblance/testkit/stack/eventually';
import { liveOffered } from '@semblance/testkit/stack/live-client';
import {
  type ChangingStream,
  connectChanging,
  type SessionRecord,
} from '@semblance/testkit/stack/live-session';
import { ADMIRAL } from '@semblance/testkit/stack/media';
import { type Account, type Stack, stackAt } from '@semblance/testkit/stack/stack';
import { root, type StackProcess, startStackProcess } from '@semblance/testkit/stack/stack-process';
import { streamedMs } from '@semblance/testkit/stack/streamed';
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

/**
 * Live sessions that programs of the owner's carry, through the whole system: a client, the gateway, the control plane, the
 * operator, the agent, a Python program, and back.
 */
const EXAMPLES = join(root, 'packages/engine-sidecar/python/examples');
/** Time limit of the start, in ms: the first run installs packages. */
const START_MS = 600_000;

/** Pictures travel in shared memory. */
const MEMORY = '/dev/shm';

let dirs: string[] = [];
let programs: ReturnType<typeof startProgram>[] = [];
let running: StackProcess;
let stack: Stack;
let account: Account;
let frame: Buffer;

describe.skipIf(!existsSync(MEMORY))('a program of the owner’s', () => {
  beforeAll(async () => {
    dirs = await Promise.all([tmpdir(), MEMORY].map((place) => mkdtemp(join(place, 'semblance-live-'))));
    const [disk = '', memory = ''] = dirs;
    // The agent of a stack that root starts runs as "nobody", so the programs share its group.
    const options = process.getuid?.() === 0 ? { gid: NOBODY } : {};
    for (const dir of dirs) {
      await chown(dir, -1, options.gid ?? -1);
      await chmod(dir, 0o770);
    }
    const python = await pythonEnv();
    const sockets = { voice: join(disk, 'engine.sock'), video: join(memory, 'engine.sock') };
    programs = [
      startProgram([python, join(EXAMPLES, 'live_robot.py')], sockets.voice, options),
      startProgram([python, join(EXAMPLES, 'live_tint.py')], sockets.video, options),
    ];
    running = await startStackProcess({
      env: { SEMBLANCE_LIVE_VOICE_SIDECAR: sockets.voice, SEMBLANCE_LIVE_VIDEO_SIDECAR: sockets.video },
    });
    stack = stackAt(running.file);
    account = await stack.newAccount({ balanceUsd: 50 });
    await liveOffered(stack);
    frame = await sharp(Buffer.from(ADMIRAL.bytes)).resize(640, 480, { fit: 'cover' }).jpeg().toBuffer();
  }, START_MS);
  afterAll(async () => {
    await running?.close();
    await Promise.all(programs.map((program) => program.end()));
    await Promise.all(dirs.map((dir) => rm(dir, { recursive: true, force: true })));
  });

  async function open(path: string, body: object): Promise<SessionRecord> {
    return eventually('a slot', async () => {
      const answer = await account.api.post(path, { duration_minutes: 1, ...body });
      if (answer.status === 502) return undefined;
      expect(answer.status, answer.text).toBe(200);
      return answer.body as SessionRecord;
    });
  }

  interface Sent {
    readonly at: number[];
    readonly messageMs: number;
  }

  /** Waits for the charge, and checks that it is that of the time between the first and the last converted message. */
  async function charged(
    { session_id, max_cost_usd, max_duration_sec }: SessionRecord,
    stream: ChangingStream,
    sent: Sent,
  ) {
    await stream.close();
    const entry = await eventually('the charge', async () => {
      const entries = (await account.api.get('/usage')).body as {
        id: string;
        status: string;
        reason: string | null;
        charged_usd: number;
      }[];
      const found = entries.find(({ id }) => id === session_id);
      return found && !['queued', 'processing'].includes(found.status) ? found : undefined;
    });
    expect(entry).toMatchObject({ status: 'succeeded', reason: null });
    const ms = (entry.charged_usd / (max_cost_usd / max_duration_sec)) * 1_000;
    const { media } = stream;
    const seen = {
      sentAt: sent.at,
      firstAt: media[0]?.at ?? Number.NaN,
      lastAt: media.at(-1)?.at ?? Number.NaN,
      back: sent.at.length,
      messageMs: sent.messageMs,
    };
    const { most } = streamedMs(seen);
    expect(ms, `at most ${most} ms were streamed`).toBeLessThan(most + 2);
    // What an engine holds back, or drops, is not charged; what came back is.
    const least = seen.lastAt - seen.firstAt;
    return { ms, least };
  }

  describe('that carries pictures', () => {
    test('paints them as the prompt says, in another colour from its change on, and is charged as ever', async () => {
      const session = await open('/full-live-swap/session', { prompt: 'Paint it red, please.' });
      const stream = await connectChanging(session);
      expect(JSON.parse(stream.firstFrame)).toEqual({ width: 640, height: 480, fps: 25, codec: 'jpeg' });
      expect(stream.fields).toEqual(['prompt']);
      const sent: Sent = { at: [], messageMs: 40 };
      /** Sends pictures in real time, and returns the mean colour of the last that comes back. */
      const shown = async (count: number) => {
        const before = stream.media.length;
        for (let k = 0; k < count; k++) {
          sent.at.push(performance.now());
          stream.ws.send(frame);
          await delay(40);
        }
        // The newest picture is always answered; others may be dropped.
        await stream.received(before + 1);
        await delay(500);
        const { data } = stream.media.at(-1) ?? {};
        expect(await sharp(data).metadata()).toMatchObject({ format: 'jpeg', width: 640, height: 480 });
        expect(data?.toString('latin1')).toContain('compositeWithTrainedAlgorithmicMedia');
        return (await sharp(data).stats()).channels.map(({ mean }) => mean);
      };
      const plain = (await sharp(frame).stats()).channels.map(({ mean }) => mean);
      const [red = 0, , blue = 0] = await shown(15);
      expect(red).toBeGreaterThan((plain[0] ?? 255) + 5);
      expect(blue).toBeLessThan((plain[2] ?? 0) + 2);
      expect(await stream.ask({ type: 'change', id: 'b', prompt: 'And now BLUE.' })).toEqual({
        type: 'changed',
        id: 'b',
      });
      const [lessRed = 0, , moreBlue = 0] = await shown(15);
      expect(lessRed).toBeLessThan(red - 10);
      expect(moreBlue).toBeGreaterThan(blue + 10);
      expect(await stream.ask({ type: 'change', prompt: 'ultraviolet' })).toEqual({
        type: 'change_refused',
        code: 'invalid_input',
        message: 'The prompt names none of red, green, blue, gold.',
      });
      expect((await shown(5))[2]).toBeGreaterThan(blue + 10);
      const { ms, least } = await charged(session, stream, sent);
      // The network may deliver the first picture later than the last one.
      expect(ms, `${least} ms were received`).toBeGreaterThan(least - 250);
    });
  });

  describe('that carries a voice', () => {
    test('converts it, as another voice from its change on, and all sound comes back', async () => {
      const session = await open('/voice/session', { voice_profile_id: 'bass-narrator' });
      const stream = await connectChanging(session);
      expect(stream.fields).toEqual(['voice_profile_id']);
      const { sample_rate, chunk_frames } = JSON.parse(stream.firstFrame) as Record<string, number> as {
        sample_rate: number;
        chunk_frames: number;
      };
      const sent: Sent = { at: [], messageMs: (1_000 * chunk_frames) / sample_rate };
      const began = performance.now();
      const speak = async (chunks: number) => {
        for (let k = 0; k < chunks; k++) {
          const from = sent.at.length * chunk_frames;
          const samples = Int16Array.from({ length: chunk_frames }, (_, i) =>
            Math.round(8_000 * Math.sin((2 * Math.PI * 220 * (from + i)) / sample_rate)),
          );
          sent.at.push(performance.now());
          stream.ws.send(Buffer.from(samples.buffer));
          await delay(Math.max(0, sent.at.length * sent.messageMs - (performance.now() - began)));
        }
      };
      const received = () => Buffer.concat(stream.media.map(({ data }) => data));
      await speak(75);
      await stream.received(10);
      expect(await stream.ask({ type: 'change', voice_profile_id: 'calm-alto' })).toEqual({
        type: 'changed',
      });
      const former = received().length;
      await speak(75);
      const whole = 150 * chunk_frames * 2;
      // A block of the engine's, 40 ms, may be held back.
      await eventually('all sound', async () => received().length >= whole - 4 * chunk_frames || undefined);
      expect(received().length).toBeLessThanOrEqual(whole);
      // The robot multiplies by half the pitch of the voice: its tone is another one.
      const half = (bytes: Buffer) => dominant(bytes, sample_rate);
      const [first, second] = [
        half(received().subarray(former - 48_000, former)),
        half(received().subarray(-48_000)),
      ];
      expect(Math.abs(first - second), `${first} and ${second} Hz`).toBeGreaterThan(10);
      expect(await stream.ask({ type: 'change', voice_profile_id: 'nobody' })).toMatchObject({
        type: 'change_refused',
        code: 'invalid_input',
      });
      const { ms } = await charged(session, stream, sent);
      expect(ms).toBeGreaterThan(((whole - 4 * chunk_frames) / 2 / sample_rate) * 1_000 - 2);
    });
  });
});

/** Returns the strongest frequency of a sound between 50 and 1,000 Hz. */
function dominant(bytes: Buffer, rate: number): number {
  const samples = new Int16Array(new Uint8Array(bytes).buffer);
  let best = { hz: 0, power: 0 };
  for (let hz = 50; hz <= 1_000; hz += 2) {
    let [re, im] = [0, 0];
    for (let i = 0; i < samples.length; i += 8) {
      const angle = (2 * Math.PI * hz * i) / rate;
      re += (samples[i] ?? 0) * Math.cos(angle);
      im += (samples[i] ?? 0) * Math.sin(angle);
    }
    const power = re * re + im * im;
    if (power > best.power) best = { hz, power };
  }
  return best.hz;
}
