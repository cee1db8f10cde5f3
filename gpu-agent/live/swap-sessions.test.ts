import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { until } from '@semblance/testkit/gpu-agent/harness';
import { type HttpStore, startHttpStore } from '@semblance/testkit/gpu-agent/http-store';
import { type LiveRig, SETTINGS, startLiveRig } from '@semblance/testkit/live/live-rig';
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const CAPABILITY = 'full-live-swap';
const MEDIA = join(import.meta.dirname, '../../media');

let rig: LiveRig;
let store: HttpStore;
let picture: Buffer;

beforeAll(async () => {
  store = await startHttpStore();
  rig = await startLiveRig({ settings: { ...SETTINGS, voiceSlots: 0, videoSlots: 1 } });
  expect(rig.live.statement).toEqual([{ name: CAPABILITY, slots: 0, warming: true }]);
  picture = await sharp(join(MEDIA, 'grace_hopper.jpg'))
    .resize(640, 480, { fit: 'contain', background: '#808080' })
    .jpeg()
    .toBuffer();
  await rig.warm();
});
afterAll(async () => {
  await rig.close();
  await store.close();
});

async function session(prompt?: string, inputs: Record<string, { url: string; maxBytes: bigint }> = {}) {
  const id = await rig.claim({
    capability: CAPABILITY,
    settings: prompt === undefined ? {} : { prompt },
    inputs,
  });
  const relay = rig.relay(id);
  const { firstFrame, maxMessageBytes, format } = await relay.ready;
  return { id, relay, first: JSON.parse(firstFrame) as { note?: string }, maxMessageBytes, format };
}

/** Returns the mean difference of two pictures, from 0 to 255. */
async function difference(a: Buffer, b: Buffer): Promise<number> {
  const [pa, pb] = await Promise.all([a, b].map((jpeg) => sharp(jpeg).removeAlpha().raw().toBuffer()));
  if (!pa || !pb || pa.length !== pb.length) return 255;
  return pa.reduce((sum, value, i) => sum + Math.abs(value - (pb[i] as number)), 0) / pa.length;
}

describe('a live swap session', () => {
  it('says which pictures it takes, and puts the default face on them', async () => {
    const { id, relay, first, maxMessageBytes, format } = await session();
    expect(first).toEqual({ width: 640, height: 480, fps: 25, codec: 'jpeg' });
    expect(format).toEqual({ $case: 'picture', value: { ...first, maxSide: 1280, maxPixels: 1280 * 720 } });
    expect(maxMessageBytes).toBe(2 * 1024 * 1024);
    relay.send(picture);
    const { data, sequence } = await relay.next();
    expect(sequence).toBe(1n);
    expect(await sharp(data).metadata()).toMatchObject({ format: 'jpeg', width: 640, height: 480 });
    const changed = await difference(data, picture);
    expect(changed).toBeGreaterThan(0.5);
    expect(changed).toBeLessThan(20);
    // A message that is not a picture is dropped and reported, and the stream goes on.
    relay.send(Buffer.from('no picture'));
    await until(() => rig.live.sessions.get(id)?.dropped === 1, 'thrown away');
    await until(() => relay.unreadable.includes(2n), 'told');
    relay.send(picture);
    expect((await relay.next()).sequence).toBe(3n);
    await relay.close();
  });

  it('keeps the own face where the prompt is not understood, says so, and sends pictures through', async () => {
    const { relay, first } = await session('make it rain');
    expect(first.note).toMatch(/^Your own face is kept: the prompt was not understood/);
    relay.send(picture);
    expect((await relay.next()).data.equals(picture)).toBe(true);
    await relay.close();
  });

  it.each([
    ['can be used', 'astronaut.png', undefined],
    ['has no face', undefined, /^Your own face is kept: .*face/],
  ])('with an uploaded picture that %s', async (_what, file, note) => {
    const plain = sharp({ create: { width: 400, height: 400, channels: 3, background: '#4060a0' } });
    store.objects.set('/face', file ? await readFile(join(MEDIA, file)) : await plain.png().toBuffer());
    const inputs = { face: { url: store.url('/face'), maxBytes: 0n } };
    const { relay, first } = await session('use api/uploads/face-1', inputs);
    if (note) expect(first.note).toMatch(note);
    else expect(first).not.toHaveProperty('note');
    relay.send(picture);
    expect((await relay.next()).data.equals(picture)).toBe(note !== undefined);
    await relay.close();
  });

  it('has another face from a change on, and keeps it where a change cannot be followed', async () => {
    const { id, relay } = await session();
    expect((await relay.ready).changeable).toEqual(['prompt']);
    const shown = async () => {
      relay.send(picture);
      return (await relay.next()).data;
    };
    const inputs = { face: { url: store.url('/face'), maxBytes: 0n } };
    const to = (prompt: string, named = false) =>
      rig.change(id, { settings: { prompt }, inputs: named ? inputs : {} });
    const refusal = (code: string, message: unknown) => ({ $case: 'refused', value: { code, message } });
    const first = await shown();
    expect(await to('none')).toMatchObject({ $case: 'changed' });
    expect((await shown()).equals(picture)).toBe(true);
    store.objects.set('/face', await readFile(join(MEDIA, 'astronaut.png')));
    expect(await to('use api/uploads/face-1', true)).toMatchObject({ $case: 'changed' });
    const swapped = await shown();
    expect(await difference(swapped, picture)).toBeGreaterThan(0.5);
    expect(await difference(swapped, first)).toBeLessThan(3);
    const plain = sharp({ create: { width: 400, height: 400, channels: 3, background: '#4060a0' } });
    store.objects.set('/face', await plain.png().toBuffer());
    expect(await to('use api/uploads/face-1', true)).toEqual(
      refusal('face_not_detected', 'No face was found in the picture of the face.'),
    );
    store.objects.set('/face', Buffer.from('no picture'));
    expect(await to('use api/uploads/face-1', true)).toMatchObject(
      refusal('unsupported_format', expect.any(String)),
    );
    expect(await to('make it rain')).toEqual(
      refusal('invalid_input', expect.stringMatching(/^The prompt was not understood\./)),
    );
    expect((await shown()).equals(picture)).toBe(false);
    await relay.close();
  });

  it('keeps the own face where the uploaded picture is not handed on', async () => {
    const { relay, first } = await session('use api/uploads/face-1');
    expect(first.note).toMatch(/^Your own face is kept/);
    await relay.close();
    expect(rig.live.sessions.held(CAPABILITY)).toBe(0);
  });
});
