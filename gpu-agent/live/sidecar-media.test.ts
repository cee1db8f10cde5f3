import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { OpenResponse, PictureTransport } from '@semblance/proto/semblance/engine/live/v1/live_engine';
import { type LiveMessage, soundOf } from '@semblance/testkit/engine-sidecar/scripted-live';
import { until } from '@semblance/testkit/gpu-agent/harness';
import { CLIENT_RATE, type SidecarRig, startSidecarRig } from '@semblance/testkit/live/sidecar-rig';
import { shippedVoice } from '@semblance/testkit/live/voices';
import sharp from 'sharp';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';

const rigs: SidecarRig[] = [];
let voice: string;

beforeAll(async () => {
  voice = (await shippedVoice('calm-alto')).json;
});
afterEach(async () => {
  for (const rig of rigs.splice(0)) await rig.close();
});
async function started(...given: Parameters<typeof startSidecarRig>) {
  const rig = await startSidecarRig(...given);
  rigs.push(rig);
  await rig.rig.warm();
  return rig;
}

/** Returns a tone of 440 Hz. */
function tone(ms: number, from = 0): Uint8Array {
  const samples = Int16Array.from({ length: (CLIENT_RATE * ms) / 1_000 }, (_, i) => {
    return 8_000 * Math.sin((2 * Math.PI * 440 * (from + i)) / CLIENT_RATE);
  });
  return new Uint8Array(samples.buffer);
}
const jpeg = (shade: number, width = 64, height = 48) =>
  sharp({ create: { width, height, channels: 3, background: { r: shade, g: shade, b: shade } } })
    .jpeg()
    .toBuffer();
const shadeOf = async (picture: Uint8Array) =>
  Math.round((await sharp(picture).stats()).channels[0]?.mean ?? -1);
const samplesOf = (data: Uint8Array) => new Int16Array(new Uint8Array(data).buffer);
const opened = (value: object) => OpenResponse.fromPartial({ message: { $case: 'opened', value } });

describe('sound', () => {
  it('is not lost where the engine is slow: it has to be waited for', async () => {
    const held: LiveMessage[] = [];
    let holds = true;
    const { open, rig, sidecar } = await started('voice', {
      converts: (session, message) => {
        if (holds) held.push(message);
        else session.answer(message);
      },
    });
    const { id, relay } = await open({ voice });
    // 1.5 s may be unanswered, and a little waits in the agent; the rest stays with the sender.
    for (let k = 0; k < 400; k++) relay.send(tone(20, k * 960));
    await until(() => held.length === 75, '1.5 s of sound');
    await until(() => (rig.live.sessions.get(id)?.received ?? 0) >= 83, 'some wait');
    expect(rig.live.sessions.get(id)?.received).toBeLessThan(400);
    holds = false;
    for (const message of held) sidecar.newest()?.answer(message);
    await until(() => relay.media.length === 400, 'all of it');
    expect(held.length).toBe(75);
    const back = Buffer.concat(relay.media.map(({ data }) => data));
    expect(back.equals(Buffer.from(tone(8_000)))).toBe(true);
    expect(rig.live.sessions.get(id)).toMatchObject({ received: 400, converted: 400, dropped: 0 });
    await relay.close();
  });

  it('comes in any number of messages, each with the number of the last one in it', async () => {
    const gathered: Buffer[] = [];
    const { open } = await started('voice', {
      converts(session, message) {
        if (message.$case !== 'sound') throw new Error('no sound');
        const { sequence, samples } = message.value;
        gathered.push(samples);
        if (gathered.length < 3) return session.answer({ $case: 'done', value: { sequence } });
        const all = Buffer.concat(gathered.splice(0));
        for (let part = 0; part < 6; part++)
          session.answer(
            soundOf(sequence, all.subarray((part * all.length) / 6, ((part + 1) * all.length) / 6)),
          );
      },
    });
    const { relay } = await open({ voice });
    for (let k = 0; k < 6; k++) relay.send(tone(20, k * 960));
    await until(() => relay.media.length === 12, 'twelve messages');
    expect(relay.media.map(({ sequence }) => Number(sequence))).toEqual([
      ...Array(6).fill(3),
      ...Array(6).fill(6),
    ]);
    expect(Buffer.concat(relay.media.map(({ data }) => data)).equals(Buffer.from(tone(120)))).toBe(true);
    await relay.close();
  });

  it('has the rates of the engine there, and that of the client here', async () => {
    let inward = 0;
    const { open, sidecar } = await started('voice', {
      opens: () => opened({ inputRate: 16_000, outputRate: 32_000 }),
      converts(session, message) {
        if (message.$case !== 'sound') throw new Error('no sound');
        const samples = samplesOf(message.value.samples);
        inward += samples.length;
        const doubled = Int16Array.from({ length: 2 * samples.length }, (_, i) => samples[i >> 1] ?? 0);
        session.answer(soundOf(message.value.sequence, new Uint8Array(doubled.buffer)));
      },
    });
    const { relay } = await open({ voice });
    expect(sidecar.opened[0]).toMatchObject({ sampleRate: CLIENT_RATE, settings: { voice } });
    for (let k = 0; k < 50; k++) relay.send(tone(20, k * 960));
    await until(() => relay.media.at(-1)?.sequence === 50n, 'all of it');
    expect(inward).toBe(16_000);
    const back = samplesOf(Buffer.concat(relay.media.map(({ data }) => data)));
    expect(back.length).toBe(CLIENT_RATE);
    let crossings = 0;
    for (let i = 4_800; i < 43_200; i++) if ((back[i - 1] ?? 0) < 0 && (back[i] ?? 0) >= 0) crossings++;
    expect(crossings).toBeGreaterThan(350);
    expect(crossings).toBeLessThan(354);
    // Half a sample is no sound, and the session goes on.
    relay.send(new Uint8Array(3));
    await until(() => relay.unreadable.includes(51n), 'told');
    relay.send(tone(20));
    await until(() => relay.media.at(-1)?.sequence === 52n, 'and on');
    await relay.close();
  });
});

describe('pictures', () => {
  it('that newer ones overtake are dropped before they are sent', async () => {
    const held: LiveMessage[] = [];
    const { open, rig, sidecar } = await started('full-live-swap', {
      info: {
        pictures: {
          transports: [PictureTransport.PICTURE_TRANSPORT_JPEG],
          inFlight: 2,
          width: 0,
          height: 0,
          fps: 0,
        },
      },
      converts: (_session, message) => void held.push(message),
    });
    const { id, relay } = await open();
    for (let k = 0; k < 40; k++) relay.send(await jpeg(k * 5));
    await until(() => rig.live.sessions.get(id)?.received === 40, 'all received');
    expect(held.map(({ value }) => value.sequence)).toEqual([1n, 2n]);
    for (const message of held.splice(0)) sidecar.newest()?.answer(message);
    await until(() => held.length === 1, 'the newest');
    expect(held[0]?.value.sequence).toBe(40n);
    sidecar.newest()?.answer(held[0]);
    await until(() => relay.media.length === 3, 'three are back');
    expect(await Promise.all(relay.media.map(({ data }) => shadeOf(data)))).toEqual([0, 5, 195]);
    await until(() => rig.live.sessions.get(id)?.converted === 3, 'counted');
    expect(rig.live.sessions.get(id)).toMatchObject({ received: 40, converted: 3, dropped: 37 });
    await relay.close();
  });

  it('may be answered by several, and each says that it was changed', async () => {
    const { open } = await started('full-live-swap', {
      converts(session, message) {
        session.answer(message);
        session.answer(message);
        session.answer({ $case: 'done', value: { sequence: message.value.sequence } });
      },
    });
    const { relay } = await open();
    const sent = await jpeg(100);
    relay.send(sent);
    await until(() => relay.media.length === 2, 'both');
    for (const { data, sequence } of relay.media) {
      expect(sequence).toBe(1n);
      expect(data.toString('latin1').match(/compositeWithTrainedAlgorithmicMedia/g)).toHaveLength(1);
      expect(await shadeOf(data)).toBe(100);
    }
    await relay.close();
  });

  it('that are refused before they are sent, or by the engine, end nothing', async () => {
    const { open } = await started('full-live-swap', {
      converts(session, message) {
        if (message.value.sequence !== 2n) return session.answer(message);
        session.answer({ $case: 'unreadable', value: { sequence: 2n } });
      },
    });
    const { relay } = await open();
    relay.send(Buffer.from('no picture'));
    await until(() => relay.unreadable.includes(1n), 'by the agent');
    relay.send(await jpeg(1));
    await until(() => relay.unreadable.includes(2n), 'by the engine');
    relay.send(await jpeg(3));
    expect((await relay.next()).sequence).toBe(3n);
    await relay.close();
  });

  it('travel as JPEG where the socket is on no memory file system, and as pixels where it is', async () => {
    const both = {
      info: {
        pictures: {
          transports: [
            PictureTransport.PICTURE_TRANSPORT_SHARED_RGB,
            PictureTransport.PICTURE_TRANSPORT_JPEG,
          ],
          inFlight: 1,
          width: 1280,
          height: 720,
          fps: 30,
        },
      },
      converts: () => {},
    };
    const disk = await started('full-live-swap', both);
    const one = await disk.open();
    expect(one.first).toEqual({ width: 1280, height: 720, fps: 30, codec: 'jpeg' });
    one.relay.send(await jpeg(1));
    await until(() => disk.sidecar.newest()?.received.length === 1, 'received');
    expect(disk.sidecar.newest()?.received[0]?.value).toMatchObject({ data: { $case: 'jpeg' } });
    await one.relay.close();

    const memory = await started('full-live-swap', both, { root: '/dev/shm' });
    const other = await memory.open();
    other.relay.send(await jpeg(1, 32, 16));
    await until(() => memory.sidecar.newest()?.received.length === 1, 'received');
    expect(memory.sidecar.newest()?.received[0]?.value).toMatchObject({
      data: { $case: 'shared', value: { slot: 0, width: 32, height: 16 } },
    });
    expect(memory.sidecar.opened[0]?.shared).toMatchObject({ slots: 4, pictureBytes: 1280 * 720 * 3 });
    await other.relay.close();
    expect(await readdir(join(memory.dir, 'live'))).toEqual([]);
  });
});

describe('what an engine is asked for', () => {
  it('is the prompt as it is, where it takes prompts', async () => {
    const { open, sidecar } = await started('full-live-swap');
    await (await open({ prompt: 'A “knight” in rain\n— please!' })).relay.close();
    expect(sidecar.opened[0]).toMatchObject({
      settings: { prompt: 'A “knight” in rain\n— please!' },
      inputs: {},
    });
  });

  it('is the picture of a face, where it does not', async () => {
    const { open, sidecar } = await started('full-live-swap', { info: { takesPrompt: false } });
    await (await open({ prompt: 'become the admiral' })).relay.close();
    expect(sidecar.opened[0]).toMatchObject({
      settings: {},
      inputs: { face: expect.stringMatching(/^live\/.*\/in\/face$/) },
    });
    // What is no face that the agent knows is not the engine's business.
    const { relay, first } = await open({ prompt: 'make it rain' });
    expect(first.note).toMatch(/^Your own face is kept: the prompt was not understood/);
    const sent = await jpeg(7);
    relay.send(sent);
    expect((await relay.next()).data.equals(sent)).toBe(true);
    relay.send(Buffer.from('no picture'));
    await until(() => relay.unreadable.length === 1, 'told');
    expect(sidecar.opened).toHaveLength(1);
    await relay.close();
  });

  it('may be refused with a sentence, and pictures pass unchanged then', async () => {
    const message = 'There are two faces in the picture.';
    const { open, sidecar } = await started('full-live-swap', {
      opens: () => OpenResponse.fromPartial({ message: { $case: 'refusal', value: { message } } }),
    });
    const { relay, first } = await open({ prompt: 'somebody' });
    expect(first.note).toBe(`Your own face is kept: ${message}`);
    const sent = await jpeg(7);
    relay.send(sent);
    expect((await relay.next()).data.equals(sent)).toBe(true);
    expect(sidecar.sessions.size).toBe(0);
    await relay.close();
  });

  it('may be answered with a note', async () => {
    const { open } = await started('full-live-swap', { opens: () => opened({ note: 'It rains.' }) });
    const { relay, first } = await open({ prompt: 'rain' });
    expect(first.note).toBe('It rains.');
    await relay.close();
  });
});
