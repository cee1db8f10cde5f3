import { wavHeader } from '@semblance/speech/internal/wav-header';

/** Returns a WAV file of 16-bit mono samples. */
export function wavOf(samples: Int16Array | Buffer, sampleRate: number): Buffer {
  const bytes = Buffer.from(samples.buffer, samples.byteOffset, samples.byteLength);
  return Buffer.concat([wavHeader(bytes.length, sampleRate), bytes]);
}
