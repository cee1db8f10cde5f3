/**
 * @module-tag ffmpeg
 * @module-tag speech
 */

import { EndReason } from '@semblance/proto/semblance/live/v1/live';
import { type LiveRig, startLiveRig } from '@semblance/testkit/live/live-rig';
import { shippedVoice } from '@semblance/testkit/live/voices';
import { speech } from '@semblance/testkit/voice/sounds';
import { createVoiceConverter } from '@semblance/voice/converter';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

let rig: LiveRig;
let sound: Int16Array;
let shipped: Awaited<ReturnType<typeof shippedVoice>>;
let voice: string;

beforeAll(async () => {
  [rig, sound, shipped] = await Promise.all([
    startLiveRig(),
    speech('flite slt'),
    shippedVoice('bass-narrator'),
  ]);
  voice = shipped.json;
  await rig.warm();
});
afterAll(() => rig.close());

/** Yields the sound in messages of these lengths, as bytes. */
function* messagesOf(samples: Int16Array, lengths: readonly number[]) {
  for (let at = 0, k = 0; at < samples.length; k++) {
    const length = lengths[k % lengths.length] as number;
    const part = samples.slice(at, at + length);
    yield new Uint8Array(part.buffer);
    at += length;
  }
}

/** Sends the sound and returns all that comes back, in one piece. */
async function through(settings: Record<string, string>, lengths: readonly number[]) {
  const id = await rig.claim({ settings });
  const relay = rig.relay(id);
  await relay.ready;
  const parts: Uint8Array[] = [];
  let sequence = 0n;
  for (const message of messagesOf(sound, lengths)) {
    relay.send(message);
    const back = await relay.next();
    expect(back.sequence).toBe(++sequence);
    expect(back.data.length).toBe(message.length);
    parts.push(back.data);
  }
  await relay.close();
  const bytes = Buffer.concat(parts);
  return {
    id,
    samples: new Int16Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length)),
  };
}

describe('a voice session', () => {
  it('says first how sound is to be sent', async () => {
    const relay = rig.relay(await rig.claim());
    const ready = await relay.ready;
    expect(ready.firstFrame).toBe('{"sample_rate":48000,"chunk_frames":960}');
    expect(ready.format).toEqual({ $case: 'voice', value: { sampleRate: 48_000, chunkFrames: 960 } });
    expect(ready.maxMessageBytes).toBe(96_000);
    await relay.close();
  });

  it('without a voice returns sound sample for sample, at once, however it is cut', async () => {
    const { id, samples } = await through({}, [960, 1, 7, 4_800, 48_000]);
    expect(Buffer.compare(Buffer.from(samples.buffer), Buffer.from(sound.buffer))).toBe(0);
    expect(rig.live.sessions.get(id)).toMatchObject({ state: 'ended', end: { reason: undefined } });
  });

  it.each([[[960]], [[480, 2_000, 48_000, 33]]])(
    'converts speech as the converter does, in messages of %j samples',
    async (lengths) => {
      const { samples } = await through({ voice }, lengths);
      const converter = createVoiceConverter({ sampleRate: 48_000, voice: shipped.voice });
      const expected = converter.push(sound);
      expect(Buffer.compare(Buffer.from(samples.buffer), Buffer.from(expected.buffer))).toBe(0);
    },
  );

  it('throws a message away that is half a sample or too long, and goes on', async () => {
    const id = await rig.claim({ settings: { voice } });
    const relay = rig.relay(id);
    await relay.ready;
    for (const length of [1_919, 96_002, 0]) relay.send(new Uint8Array(length));
    relay.send(new Uint8Array(1_920));
    expect((await relay.next()).sequence).toBe(4n);
    expect(rig.live.sessions.get(id)).toMatchObject({ received: 4, dropped: 3 });
    await relay.close(EndReason.END_REASON_TIMED_OUT);
    expect(rig.live.sessions.get(id)).toMatchObject({
      state: 'ended',
      end: { reason: 'timed_out' },
      converted: 1,
    });
  });

  it('is refused for a voice that is none', async () => {
    await expect(rig.claim({ settings: { voice: '{"id":"x"}' } })).rejects.toMatchObject({
      code: 3,
      details: expect.stringContaining('settings.voice'),
    });
  });
});
