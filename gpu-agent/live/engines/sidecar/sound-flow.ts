import {
  ChangeRefusedError,
  type FlowListener,
  type LiveChange,
  type LiveFlow,
  type LiveMedia,
  type OpenLiveOptions,
} from '@semblance/engine-api/live-engine';
import { LiveRefusal } from '@semblance/engine-sidecar/live/live-answers';
import type { LiveSidecar } from '@semblance/engine-sidecar/live/live-sidecar';
import type { SidecarSession } from '@semblance/engine-sidecar/live/open-session';
import { Resampler } from '@semblance/voice/rvc/resampler';
import {
  bytesOf,
  passThrough,
  SAMPLE_BYTES,
  type SoundFormat,
  samplesOf,
  soundOf,
  voiceOf,
} from '../voice/sound-messages.ts';
import type { SidecarMedia } from './sidecar-engine.ts';

/** How much longer than what it was given the sound of an engine may be, in ms. Sound is charged by its length. */
const MOST_EXTRA_MS = 250;

/** Creates the sound of Voice Swap through a sidecar. Without a voice it passes unchanged, and the sidecar is not asked. */
export function createSoundMedia(sound: SoundFormat): SidecarMedia {
  return {
    check(settings) {
      voiceOf(settings);
    },
    async open(
      sidecar: LiveSidecar,
      { settings, inputs, signal, onFailed }: OpenLiveOptions,
    ): Promise<LiveMedia> {
      if (!voiceOf(settings)) return { ...soundOf(sound), transform: passThrough, close: async () => {} };
      const { sampleRate } = sound;
      const session = await sidecar.open({ settings, inputs, sampleRate, signal });
      return createSoundFlow(session, sound, onFailed);
    },
  };
}

/** Resamples sound both ways. Nothing of it is dropped. */
function createSoundFlow(
  session: SidecarSession,
  sound: SoundFormat,
  onFailed: (error: Error) => void,
): LiveFlow {
  const { call, inputRate, outputRate, end } = session;
  const { sampleRate } = sound;
  const inward = resampled(sampleRate, inputRate);
  const outward = resampled(outputRate, sampleRate);
  let listener: FlowListener | undefined;
  let givenMs = 0;
  let takenMs = 0;
  return {
    ...soundOf(sound),
    get hasRoom() {
      return call.hasRoom;
    },
    listen(given) {
      listener = given;
      call.listen({
        answered: () => given.room(),
        sound(sequence, answer) {
          const samples = samplesOf(answer);
          takenMs += (samples.length / outputRate) * 1_000;
          if (takenMs > givenMs + MOST_EXTRA_MS)
            return call.fail(new Error('the sidecar gives more sound than it gets'));
          const out = outward(samples);
          if (out.length > 0) given.converted(sequence, bytesOf(out));
        },
        picture() {},
        unreadable: (sequence) => given.unreadable(sequence),
        failed: onFailed,
      });
    },
    push(sequence, message) {
      if (message.length % SAMPLE_BYTES !== 0) return void listener?.unreadable(sequence);
      const samples = samplesOf(message);
      const ms = (samples.length / sampleRate) * 1_000;
      givenMs += ms;
      const sent = bytesOf(inward(samples));
      const data = Buffer.from(sent.buffer, sent.byteOffset, sent.byteLength);
      call.send({ $case: 'sound', value: { sequence, samples: data } }, sequence, ms);
    },
    pause: () => call.pause(),
    resume: () => call.resume(),
    change: session.change && changedBy(session.change),
    close: end,
  };
}

/** Returns the change of a session to what its client asks for. */
export function changedBy(change: NonNullable<SidecarSession['change']>): NonNullable<LiveMedia['change']> {
  return async ({ settings, inputs }: Pick<LiveChange, 'settings' | 'inputs'>) => {
    try {
      return { note: (await change({ settings, inputs })) || undefined };
    } catch (error) {
      if (!(error instanceof LiveRefusal)) throw error;
      throw new ChangeRefusedError('invalid_input', error.message, { cause: error });
    }
  };
}

/** Returns a function that resamples a stream, cut as it comes. */
function resampled(from: number, to: number): (samples: Int16Array) => Int16Array {
  if (from === to) return (samples) => samples;
  const resampler = new Resampler(from, to);
  // The conversion of a whole number beyond its range wraps around.
  const clipped = (value: number) => Math.max(-32_768, Math.min(32_767, Math.round(value)));
  return (samples) => Int16Array.from(resampler.push(Float64Array.from(samples)), clipped);
}
