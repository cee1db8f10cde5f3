import assert from 'node:assert/strict';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { LiveCapability } from '@semblance/engine-api/live-engine';
import { PICTURE_LIMITS } from '@semblance/engine-builtin/live-swap/types';
import sharp from 'sharp';
import type { Check } from '../checks.ts';
import type { LiveSubject } from './live-subject.ts';
import { type Answer, openTalk, type Talk } from './talk.ts';

const PORTRAIT = join(import.meta.dirname, '../../../media/grace_hopper.jpg');
/** Sound that an engine may hold back, and by which it may give more than it gets, in ms. */
const HELD_BACK_MS = 1_500;
const MOST_EXTRA_MS = 250;
/** Sessions at once that the suite opens at most. */
const MOST_SESSIONS = 8;
/** Longest note for a client, in characters. */
const MOST_NOTE = 300;
const SECONDS = 3;
const PICTURES = 8;

export interface LiveConformanceInputs {
  readonly capability: LiveCapability;
  /** What sessions are opened with: `voice` or `prompt`. */
  readonly settings: Readonly<Record<string, string>>;
  /** What a session is changed to; default: `settings`. */
  readonly changed?: Readonly<Record<string, string>>;
  /** Longest wait for an answer, in ms. Default: 10 s, after which an agent gives an engine up. */
  readonly answerMs?: number;
}

/** What a client sends, and how its answers are judged. */
interface Media {
  /** Media of some seconds, as messages. */
  messages(): Promise<readonly Uint8Array[]>;
  readonly invalid: Uint8Array;
  /** Whether these answers are all that is owed for everything that was sent. */
  complete(talk: Talk, sent: readonly Uint8Array[], last: bigint): boolean;
  check(answers: readonly Answer[], sent: readonly Uint8Array[]): Promise<void>;
}

const lengthOf = (messages: readonly Uint8Array[]) => messages.reduce((sum, { length }) => sum + length, 0);
const dataOf = (answers: readonly Answer[]) => answers.map(({ data }) => data);

function sound({ media: { format } }: Talk): Media {
  assert.equal(format.kind, 'voice', 'it carries no sound');
  const { sampleRate, chunkFrames } = format.kind === 'voice' ? format : { sampleRate: 0, chunkFrames: 0 };
  const bytesOfMs = (ms: number) => 2 * Math.floor((sampleRate * ms) / 1_000);
  return {
    async messages() {
      return Array.from({ length: Math.ceil((SECONDS * sampleRate) / chunkFrames) }, (_, k) => {
        const samples = Int16Array.from({ length: chunkFrames }, (_, i) =>
          vowel(k * chunkFrames + i, sampleRate),
        );
        return new Uint8Array(samples.buffer);
      });
    },
    invalid: new Uint8Array(3),
    complete: (talk, sent) => lengthOf(dataOf(talk.answers)) >= lengthOf(sent) - bytesOfMs(HELD_BACK_MS),
    async check(answers, sent) {
      for (const { data } of answers) assert.equal(data.length % 2, 0, 'an answer has half a sample');
      const most = lengthOf(sent) + bytesOfMs(MOST_EXTRA_MS);
      assert.ok(lengthOf(dataOf(answers)) <= most, 'it gives more sound than it gets');
      const loud = answers.some(({ data }) =>
        new Int16Array(new Uint8Array(data).buffer).some((value) => Math.abs(value) > 100),
      );
      assert.ok(loud, 'it answers a voice with silence');
    },
  };
}

/** Returns a sample of a hum with formants, which engines take for speech. */
function vowel(at: number, rate: number): number {
  let sum = 0;
  for (let harmonic = 1; harmonic <= 8; harmonic++)
    sum += Math.sin((2 * Math.PI * 120 * harmonic * at) / rate) / harmonic;
  return 6_000 * sum;
}

function pictures({ media: { format } }: Talk): Media {
  assert.equal(format.kind, 'picture', 'it carries no pictures');
  return {
    messages: () =>
      Promise.all(
        Array.from({ length: PICTURES }, (_, k) =>
          sharp(PORTRAIT)
            .resize(640, 480, { fit: 'contain', background: { r: 20 * k, g: 128, b: 128 } })
            .jpeg()
            .toBuffer(),
        ),
      ),
    invalid: Buffer.from('This is no picture.'),
    complete: ({ answers }, _sent, last) => answers.at(-1)?.sequence === last,
    async check(answers) {
      for (const { data } of answers) {
        const { format: kind, width, height } = await sharp(data).metadata();
        assert.equal(kind, 'jpeg', 'an answer is no JPEG');
        const fits =
          Math.max(width, height) <= PICTURE_LIMITS.side && width * height <= PICTURE_LIMITS.pixels;
        assert.ok(fits && data.length <= PICTURE_LIMITS.bytes, `an answer has ${width} × ${height} pixels`);
        await sharp(data, { failOn: 'error' }).raw().toBuffer();
      }
    },
  };
}

function checkOrder(answers: readonly Answer[], last: bigint): void {
  let before = 1n;
  for (const { sequence } of answers) {
    assert.ok(sequence >= before && sequence <= last, `message ${sequence} is answered after ${before}`);
    before = sequence;
  }
}

function checkFormat(talk: Talk): void {
  const { firstFrame, format, maxMessageBytes } = talk.media;
  const first = JSON.parse(firstFrame) as Record<string, unknown>;
  const fields =
    format.kind === 'voice'
      ? { sample_rate: format.sampleRate, chunk_frames: format.chunkFrames }
      : { width: format.width, height: format.height, fps: format.fps, codec: format.codec };
  for (const [name, value] of Object.entries(fields))
    assert.equal(first[name], value, `${name} of the first frame`);
  assert.ok(maxMessageBytes > 0, 'it takes no message');
}

/**
 * Returns the requirements of every engine of live sessions as checks. They share the subject and must run in this order.
 */
export function liveConformanceChecks(subject: LiveSubject, given: LiveConformanceInputs): Check[] {
  const { capability, settings, changed = settings, answerMs = 10_000 } = given;
  const { engine } = subject;
  const open = () => openTalk({ engine, settings, answerMs });
  const mediaOf = (talk: Talk): Media => (capability === 'voice' ? sound(talk) : pictures(talk));

  async function withTalk(use: (talk: Talk, media: Media) => Promise<void>): Promise<void> {
    const talk = await open();
    try {
      await use(talk, mediaOf(talk));
    } finally {
      await talk.close();
    }
  }
  /** Sends everything, as fast as the engine lets it, and judges what comes back. */
  async function converse(talk: Talk, media: Media): Promise<void> {
    const sent = await media.messages();
    let last = 0n;
    for (const message of sent) last = await talk.send(message.slice());
    await talk.until(() => media.complete(talk, sent, last), 'an answer to what was sent');
    checkOrder(talk.answers, last);
    await media.check(talk.answers, sent);
  }
  /** Changes the session after half of what is sent. */
  async function changeWhileItFlows(talk: Talk, media: Media): Promise<void> {
    const { change } = talk.media;
    if (!change) return;
    const sent = await media.messages();
    let last = 0n;
    const send = async (messages: readonly Uint8Array[]) => {
      for (const message of messages) last = await talk.send(message.slice());
    };
    await send(sent.slice(0, sent.length / 2));
    const [{ note = '' }] = await Promise.all([
      change({ settings: changed, inputs: {} }),
      send(sent.slice(sent.length / 2)),
    ]);
    assert.ok(note.length <= MOST_NOTE, `a note has ${note.length} characters`);
    await talk.until(() => media.complete(talk, sent, last), 'an answer to what was sent');
    checkOrder(talk.answers, last);
    await media.check(talk.answers, sent);
  }
  async function allAtOnce(): Promise<void> {
    const talks = await Promise.all(Array.from({ length: Math.min(MOST_SESSIONS, engine.slots) }, open));
    try {
      await Promise.all(talks.map((talk) => converse(talk, mediaOf(talk))));
    } finally {
      await Promise.all(talks.map((talk) => talk.close()));
    }
  }

  return [
    {
      name: 'says what it carries, and for how many',
      async run() {
        assert.equal(engine.capability, capability);
        assert.equal(engine.delivery, capability === 'voice' ? 'every' : 'newest');
        assert.ok(engine.slots >= 1 && engine.slots <= 1_024, `it has ${engine.slots} slots`);
        assert.equal(engine.warming, false, 'it is still warming up');
      },
    },
    {
      name: 'opens a session, and says what its client has to send',
      run: () => withTalk(async (talk) => checkFormat(talk)),
    },
    {
      name: 'answers each message in time, in order, and with media',
      run: () =>
        withTalk(async (talk, media) => {
          for (const message of (await media.messages()).slice(0, PICTURES)) {
            const last = await talk.send(message.slice());
            if (capability !== 'voice')
              await talk.until(() => talk.answers.at(-1)?.sequence === last, `an answer to picture ${last}`);
          }
          await converse(talk, media);
        }),
    },
    {
      name: 'loses no sound, and answers the newest picture, however fast they come',
      run: () => withTalk(converse),
    },
    {
      name: 'refuses what is no media, and goes on',
      run: () =>
        withTalk(async (talk, media) => {
          const bad = await talk.send(media.invalid.slice());
          await talk.until(() => talk.unreadable.includes(bad), 'a refusal of what is no media');
          await converse(talk, media);
        }),
    },
    {
      name: 'changes prompt, face or voice while media flow, if it can',
      run: () => withTalk(changeWhileItFlows),
    },
    {
      name: 'carries as many sessions at once as it says, each on its own, and again when they are closed',
      async run() {
        await allAtOnce();
        await allAtOnce();
      },
    },
    {
      name: 'fails the sessions of a dead program, and carries others when it is there again',
      ...(subject.crash ? {} : { skip: 'there is no program that may be killed' }),
      async run() {
        await withTalk(async (talk, media) => {
          await converse(talk, media);
          subject.crash?.();
          await talk.until(() => talk.failure !== undefined, 'a failure').catch(() => {});
          assert.ok(talk.failure !== undefined, 'a session goes on without its program');
        });
        subject.restart?.();
        const end = performance.now() + 60_000;
        while (engine.slots === 0 || engine.warming) {
          assert.ok(performance.now() < end, 'it is not warm again');
          await delay(20);
        }
        await withTalk(converse);
      },
    },
    {
      name: 'closes',
      run: () => subject.close(),
    },
  ];
}
