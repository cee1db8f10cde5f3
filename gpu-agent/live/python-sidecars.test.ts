/** @module-tag python */

import { existsSync, readFileSync } from 'node:fs';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { EndReason } from '@semblance/proto/semblance/live/v1/live';
import { pythonEnv } from '@semblance/testkit/engine-sidecar/python-env';
import { until } from '@semblance/testkit/gpu-agent/harness';
import { type LiveRig, SETTINGS, startLiveRig } from '@semblance/testkit/live/live-rig';
import { shippedVoice } from '@semblance/testkit/live/voices';
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startProgram } from '../conformance/program.ts';

const EXAMPLES = join(import.meta.dirname, '../../packages/engine-sidecar/python/examples');
const MEMORY = '/dev/shm';
const CAPABILITY = 'full-live-swap';

/** Time limit of the start, in ms: the first run installs packages. */
const START_MS = 300_000;
const RATE = 48_000;

// Pictures travel in shared memory.
describe.skipIf(!existsSync(MEMORY))('an agent with sidecars of live sessions', () => {
  let dirs: string[];
  let sockets: { voice: string; video: string };
  let programs: ReturnType<typeof startProgram>[];
  let rig: LiveRig;
  let voice: string;

  const start = async (example: string, socket: string) =>
    startProgram([await pythonEnv(), join(EXAMPLES, example)], socket);

  beforeAll(async () => {
    voice = (await shippedVoice('bass-narrator')).json;
    dirs = await Promise.all([tmpdir(), MEMORY].map((root) => mkdtemp(join(root, 'semblance-live-'))));
    const [disk = '', memory = ''] = dirs;
    sockets = { voice: join(disk, 'engine.sock'), video: join(memory, 'engine.sock') };
    programs = await Promise.all([
      start('live_robot.py', sockets.voice),
      start('live_tint.py', sockets.video),
    ]);
    rig = await startLiveRig({
      settings: { ...SETTINGS, videoSlots: 1, voiceSidecar: sockets.voice, videoSidecar: sockets.video },
    });
    await rig.warm();
  }, START_MS);
  afterAll(async () => {
    await rig?.close();
    await Promise.all((programs ?? []).map((program) => program.end()));
    // The agent and the program leave nothing beside their sockets.
    const left = await Promise.all((dirs ?? []).map((dir) => readdir(dir)));
    await Promise.all((dirs ?? []).map((dir) => rm(dir, { recursive: true, force: true })));
    expect(left).toEqual([[], []]);
  });

  const stateOf = (id: string) => rig.live.sessions.get(id);
  const slotsOf = (name: string) => rig.live.statement.find((each) => each.name === name)?.slots;

  async function open(capability: 'voice' | typeof CAPABILITY, settings: Record<string, string>) {
    const id = await rig.claim({ capability, settings });
    const relay = rig.relay(id);
    const { firstFrame } = await relay.ready;
    return { id, relay, first: JSON.parse(firstFrame) as Record<string, unknown> };
  }

  /** Returns a tone, as messages of 20 ms. */
  function tone(seconds: number): Uint8Array[] {
    return Array.from({ length: seconds * 50 }, (_, k) => {
      const samples = Int16Array.from({ length: RATE / 50 }, (_, i) => {
        return 8_000 * Math.sin((2 * Math.PI * 440 * (k * (RATE / 50) + i)) / RATE);
      });
      return new Uint8Array(samples.buffer);
    });
  }

  async function picture(name = 'grace_hopper.jpg', width = 640, height = 480): Promise<Buffer> {
    return sharp(readFileSync(join(import.meta.dirname, '../../media', name)))
      .resize(width, height, { fit: 'cover' })
      .jpeg()
      .toBuffer();
  }

  /** Returns the mean colour. */
  async function colourOf(jpeg: Uint8Array): Promise<number[]> {
    return (await sharp(jpeg).stats()).channels.map(({ mean }) => mean);
  }

  it('says which programs carry what, and how many sessions each takes', () => {
    expect(rig.live.statement).toEqual([
      { name: 'voice', slots: 2, warming: false, engine: 'numpy-robot 1' },
      { name: CAPABILITY, slots: 2, warming: false, engine: 'opencv-tint 1' },
    ]);
  });

  describe('sound', () => {
    it('is converted at the rate of the engine, in blocks of its own, and as much comes back', async () => {
      const { id, relay, first } = await open('voice', { voice });
      expect(first).toEqual({ sample_rate: RATE, chunk_frames: 960 });
      const sent = tone(2);
      for (const message of sent) relay.send(message);
      const bytes = () => relay.media.reduce((sum, { data }) => sum + data.length, 0);
      const whole = sent.length * 1_920;
      // What does not fill a block is held back.
      await until(() => bytes() >= whole - 2 * 1_920, 'the sound');
      expect(bytes()).toBeLessThanOrEqual(whole);
      const sequences = relay.media.map(({ sequence }) => sequence);
      expect(sequences).toEqual(sequences.toSorted((a, b) => Number(a - b)));
      expect(sequences.at(-1)).toBe(100n);
      const all = Buffer.concat(relay.media.map(({ data }) => data));
      const samples = new Int16Array(new Uint8Array(all).buffer);
      expect(Math.max(...samples)).toBeGreaterThan(2_000);
      expect(stateOf(id)).toMatchObject({ received: 100, dropped: 0 });
      await relay.close();
      expect(await readdir(join(dirs[0] ?? '', 'live'))).toEqual([]);
    });

    it('has another voice from its change on, and none of it is lost', async () => {
      const { id, relay } = await open('voice', { voice });
      const other = (await shippedVoice('calm-alto')).json;
      const sent = tone(2);
      for (const message of sent.slice(0, 50)) relay.send(message);
      await until(() => relay.media.length >= 20, 'some sound');
      expect(await rig.change(id, { settings: { voice: other } })).toMatchObject({ $case: 'changed' });
      for (const message of sent.slice(50)) relay.send(message);
      const bytes = () => relay.media.reduce((sum, { data }) => sum + data.length, 0);
      const whole = sent.length * 1_920;
      await until(() => bytes() >= whole - 2 * 1_920, 'the sound');
      expect(bytes()).toBeLessThanOrEqual(whole);
      await relay.close();
    });

    it('passes unchanged without a voice', async () => {
      const { relay } = await open('voice', {});
      const [message = new Uint8Array()] = tone(1);
      relay.send(message);
      expect((await relay.next()).data.equals(message)).toBe(true);
      await relay.close();
    });
  });

  describe('pictures', () => {
    it('go through shared memory, and the prompt says what becomes of them', async () => {
      const { relay, first } = await open(CAPABILITY, { prompt: 'Paint all of it BLUE, please.' });
      expect(first).toEqual({ width: 640, height: 480, fps: 25, codec: 'jpeg' });
      const sent = await picture();
      relay.send(sent);
      const { data, sequence } = await relay.next();
      expect(sequence).toBe(1n);
      expect(await sharp(data).metadata()).toMatchObject({ format: 'jpeg', width: 640, height: 480 });
      expect(data.toString('latin1')).toContain('compositeWithTrainedAlgorithmicMedia');
      const [before, after] = [await colourOf(sent), await colourOf(data)];
      expect(after[2]).toBeGreaterThan((before[2] ?? 0) + 10);
      expect(after[0]).toBeLessThan((before[0] ?? 0) - 5);
      // Another size, a picture that is none, and on it goes.
      relay.send(await picture('astronaut.png', 321, 239));
      expect(await sharp((await relay.next()).data).metadata()).toMatchObject({ width: 321, height: 239 });
      relay.send(Buffer.from('no picture'));
      await until(() => relay.unreadable.includes(3n), 'told');
      relay.send(sent);
      expect((await relay.next()).sequence).toBe(4n);
      await relay.close();
    });

    it('are painted in another colour from the change of the prompt on', async () => {
      const { id, relay } = await open(CAPABILITY, { prompt: 'red' });
      const sent = await picture();
      const shown = async () => {
        relay.send(sent);
        return colourOf((await relay.next()).data);
      };
      const [red = 0, , blue = 0] = await shown();
      expect(await rig.change(id, { settings: { prompt: 'now blue' } })).toMatchObject({ $case: 'changed' });
      const [lessRed = 0, , moreBlue = 0] = await shown();
      expect(lessRed).toBeLessThan(red - 10);
      expect(moreBlue).toBeGreaterThan(blue + 10);
      const refused = await rig.change(id, { settings: { prompt: 'ultraviolet' } });
      expect(refused).toEqual({
        $case: 'refused',
        value: { code: 'invalid_input', message: 'The prompt names none of red, green, blue, gold.' },
      });
      expect((await shown())[2]).toBeCloseTo(moreBlue, 0);
      await relay.close();
    });

    it('of a prompt that the engine does not understand come with a note', async () => {
      const { relay, first } = await open(CAPABILITY, { prompt: 'as an admiral' });
      expect(first.note).toMatch(/^The prompt names none of red, green, blue, gold/);
      await relay.close();
    });
  });

  it('takes no session while its program is away, ends those that it had, and takes them again', async () => {
    const { relay } = await open('voice', { voice });
    programs[0]?.kill();
    await relay.over;
    expect(relay.ended()?.reason).toBe(EndReason.END_REASON_RENDER_FAILED);
    await until(() => slotsOf('voice') === 0, 'withdrawn');
    expect(rig.live.statement[0]).toEqual({ name: 'voice', slots: 0, warming: true });
    // Pictures are carried by another program.
    expect(slotsOf(CAPABILITY)).toBe(2);
    programs[0] = await start('live_robot.py', sockets.voice);
    await until(() => slotsOf('voice') === 2, 'offered again');
    const again = await open('voice', { voice });
    for (const message of tone(1)) again.relay.send(message);
    expect((await again.relay.next()).data.length).toBeGreaterThan(0);
    await again.relay.close();
  });
});
