import { parseVoice, type Voice, VoiceError } from '@semblance/common/voices/voice';
import { BadMessageError, LiveSettingsError } from '@semblance/engine-api/live-engine';

export const SAMPLE_BYTES = Int16Array.BYTES_PER_ELEMENT;

export interface SoundFormat {
  readonly sampleRate: number;
  /** Samples that clients are asked to send in one message. */
  readonly chunkFrames: number;
}

/** Returns what every stream of Voice Swap says of itself. */
export function soundOf({ sampleRate, chunkFrames }: SoundFormat) {
  return {
    firstFrame: JSON.stringify({ sample_rate: sampleRate, chunk_frames: chunkFrames }),
    format: { kind: 'voice', sampleRate, chunkFrames },
    // One second of sound: longer messages would be heard as pauses.
    maxMessageBytes: sampleRate * SAMPLE_BYTES,
  } as const;
}

/** Returns the voice of a session; undefined: sound passes unchanged. @throws LiveSettingsError */
export function voiceOf(settings: Readonly<Record<string, string>>): Voice | undefined {
  if (settings.voice === undefined) return undefined;
  try {
    return parseVoice(settings.voice, 'settings.voice');
  } catch (error) {
    if (error instanceof VoiceError) throw new LiveSettingsError(error.message, { cause: error });
    throw error;
  }
}

/** @throws BadMessageError */
export async function passThrough(message: Uint8Array): Promise<Uint8Array> {
  assertWhole(message);
  return message;
}

/** @throws BadMessageError */
export function assertWhole(message: Uint8Array): void {
  if (message.length % SAMPLE_BYTES !== 0) throw new BadMessageError('half a sample');
}

/** Returns the samples in place. At an odd offset they cannot be read, so it returns a copy. */
export function samplesOf(message: Uint8Array): Int16Array {
  const even = message.byteOffset % SAMPLE_BYTES === 0 ? message : new Uint8Array(message);
  return new Int16Array(even.buffer, even.byteOffset, even.length / SAMPLE_BYTES);
}

export function bytesOf({ buffer, byteOffset, byteLength }: Int16Array): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}
