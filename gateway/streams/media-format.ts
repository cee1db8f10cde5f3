import type { PictureFormat, RelayReady, VoiceFormat } from '@semblance/proto/semblance/live/v1/live';
import type { AllowanceOptions } from './allowance.ts';
import { PICTURE_SIZES } from './picture-size.ts';

/** Holds what a client is held to, by what the agent said when it was ready. */
export interface MediaFormat {
  readonly kind: 'voice' | 'picture';
  /** Returns what is wrong with a message, as a sentence; undefined: nothing. */
  faultOf(data: Buffer): string | undefined;
  /** Bytes of sound, or pictures. */
  unitsOf(data: Buffer): number;
  durationMs(data: Buffer): number;
  readonly allowance: AllowanceOptions;
  readonly tooFast: string;
  /** Most units at the agent without an answer, and as many on their way to the client. */
  readonly mostUnanswered: number;
  readonly mostUnread: number;
  /** Units after which the client is asked how far it has read. */
  readonly markEvery: number;
}

/**
 * States what may come at once at the beginning, and what after a silence: all that a client may have said while its
 * network was away, for as long as one that is not heard is waited for. TCP tries again ever more seldom, so that a
 * network which was away for 7 s brings what was said in 13.
 */
const START_MS = 2_000;
const MAX_MS = 20_000;
/** Clocks of sound cards and cameras are not ours. */
const VOICE_RATE = 1.01;
const PICTURE_RATE = 1.5;
/** Sound that may be on its way. */
const SOUND_MS = 2_000;
const MARK_MS = 250;
/** Pictures that may be on their way to the client: what it is behind by, at most, when it is slow. */
const PICTURES_MS = 250;
const LEAST_PICTURES = 3;

/** @throws Error when the agent named no format */
export function mediaFormatOf({ format, maxMessageBytes }: RelayReady): MediaFormat {
  // To `ws`, 0 is no limit.
  if (maxMessageBytes < 1) throw new Error('the agent is ready and takes no message');
  if (format?.$case === 'voice') return voice(format.value);
  if (format?.$case === 'picture') return pictures(format.value);
  throw new Error('the agent is ready and names no format');
}

function voice({ sampleRate }: VoiceFormat): MediaFormat {
  const perMs = (sampleRate * 2) / 1000;
  return {
    kind: 'voice',
    faultOf: (data) => (data.length % 2 === 0 ? undefined : 'a message has half a sample'),
    unitsOf: (data) => data.length,
    durationMs: (data) => data.length / perMs,
    allowance: { perMs: perMs * VOICE_RATE, start: START_MS * perMs, most: MAX_MS * perMs },
    tooFast: `more than ${sampleRate} samples a second`,
    mostUnanswered: SOUND_MS * perMs,
    mostUnread: SOUND_MS * perMs,
    markEvery: MARK_MS * perMs,
  };
}

function pictures(format: PictureFormat): MediaFormat {
  const { fps } = format;
  const perMs = fps / 1000;
  return {
    kind: 'picture',
    faultOf: (data) => pictureFault(data, format),
    unitsOf: () => 1,
    durationMs: () => 1 / perMs,
    allowance: {
      perMs: perMs * PICTURE_RATE,
      start: Math.ceil(START_MS * perMs),
      most: Math.ceil(MAX_MS * perMs),
    },
    tooFast: `more than ${fps} pictures a second`,
    mostUnanswered: Math.ceil(START_MS * perMs),
    mostUnread: Math.max(LEAST_PICTURES, Math.ceil(PICTURES_MS * perMs)),
    markEvery: 1,
  };
}

/** Pictures of a codec that is not known here are the engine's to judge. */
function pictureFault(data: Buffer, { codec, maxSide, maxPixels }: PictureFormat): string | undefined {
  const sizeOf = PICTURE_SIZES[codec];
  if (!sizeOf) return undefined;
  const size = sizeOf(data);
  if (!size) return `a message is no ${codec} picture`;
  const { width, height } = size;
  // An agent of the release before tells no limits.
  const isTooLarge =
    (maxSide > 0 && Math.max(width, height) > maxSide) || (maxPixels > 0 && width * height > maxPixels);
  if (!isTooLarge) return undefined;
  return `a picture has ${width} × ${height} pixels; at most ${maxSide} a side and ${maxPixels} in all are taken`;
}
