import type { PictureFormat, RelayReady, VoiceFormat } from '@semblance/proto/semblance/live/v1/live';
import type { AllowanceOptions } from './allowance.ts';
import { PICTURE_SIZES } from './picture-size.ts';

/** Limits of a client, from what the agent said when it was ready. */
export interface MediaFormat {
  readonly kind: 'voice' | 'picture';
  /** Returns the fault of a message, as a sentence; undefined if it has none. */
  faultOf(data: Buffer): string | undefined;
  /**
   * Returns the whole samples that have arrived; half a sample is kept for the next message, because programs that
   * read from a pipe send what they have. Pictures pass as they are.
   */
  whole(data: Buffer): Buffer;
  /** Bytes of sound, or pictures. */
  unitsOf(data: Buffer): number;
  durationMs(data: Buffer): number;
  readonly allowance: AllowanceOptions;
  readonly tooFast: string;
  /** Most unanswered units at the agent, and most units on their way to the client. */
  readonly mostUnanswered: number;
  readonly mostUnread: number;
  /** Units after which the client is asked how far it has read. */
  readonly markEvery: number;
}

/**
 * Bursts at the start and after a silence, in ms. The second covers everything that a client may have said during
 * the longest outage: TCP retries ever more rarely, so a network that was away for 7 s may deliver after 13 s.
 */
const START_MS = 2_000;
const MAX_MS = 20_000;
/** Tolerance for the clocks of sound cards and cameras. */
const VOICE_RATE = 1.01;
const PICTURE_RATE = 1.5;
/** Sound that may be on its way, in ms. */
const SOUND_MS = 2_000;
const MARK_MS = 250;
/** Pictures that may be on their way to the client, in ms: its largest delay when it is slow. */
const PICTURES_MS = 250;
const LEAST_PICTURES = 3;

/** Returns the format of one stream. @throws Error when the agent named no format */
export function mediaFormatOf({ format, maxMessageBytes }: RelayReady): MediaFormat {
  // For `ws`, 0 means no limit.
  if (maxMessageBytes < 1) throw new Error('the agent is ready and takes no message');
  if (format?.$case === 'voice') return voice(format.value);
  if (format?.$case === 'picture') return pictures(format.value);
  throw new Error('the agent is ready and names no format');
}

function voice({ sampleRate }: VoiceFormat): MediaFormat {
  const perMs = (sampleRate * 2) / 1000;
  let half = Buffer.alloc(0);
  return {
    kind: 'voice',
    faultOf: () => undefined,
    whole(data) {
      const all = half.length > 0 ? Buffer.concat([half, data]) : data;
      const end = all.length - (all.length % 2);
      half = Buffer.from(all.subarray(end));
      return all.subarray(0, end);
    },
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
    whole: (data) => data,
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

/** The engine judges pictures of codecs that are unknown here. */
function pictureFault(data: Buffer, { codec, maxSide, maxPixels }: PictureFormat): string | undefined {
  const sizeOf = PICTURE_SIZES[codec];
  if (!sizeOf) return undefined;
  const size = sizeOf(data);
  if (!size) return `a message is no ${codec} picture`;
  const { width, height } = size;
  // An agent of the previous release states no limits.
  const isTooLarge =
    (maxSide > 0 && Math.max(width, height) > maxSide) || (maxPixels > 0 && width * height > maxPixels);
  if (!isTooLarge) return undefined;
  return `a picture has ${width} × ${height} pixels; at most ${maxSide} a side and ${maxPixels} in all are taken`;
}
