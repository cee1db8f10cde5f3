import { setImmediate as otherWork } from 'node:timers/promises';
import { createVoiceConverter } from '@semblance/voice/converter';

const RATE = 48_000;
/** Seconds of sound that it takes to compile the code; before that, a chunk takes several times as long. */
const SECONDS = 3;

/**
 * Converts vowel and noise in turn, so that both paths of the converter are compiled. It yields in between.
 * @throws the signal's reason
 */
export async function warmUpConversion(signal: AbortSignal): Promise<void> {
  const converter = createVoiceConverter({
    sampleRate: RATE,
    voice: {
      id: 'warm-up',
      name: 'warm-up',
      description: 'heard by nobody',
      pitchHz: { low: 205, high: 290 },
      formantShift: 1.17,
      timbre: [
        { hz: 200, db: -2 },
        { hz: 3_000, db: 3 },
      ],
    },
  });
  const chunk = RATE / 50;
  for (let at = 0; at < SECONDS * RATE; at += chunk) {
    const voiced = Math.floor(at / (RATE / 4)) % 2 === 0;
    const samples = Int16Array.from({ length: chunk }, (_, i) => {
      if (!voiced) return ((Math.imul(at + i, 2_654_435_761) >>> 16) % 2_000) - 1_000;
      let sum = 0;
      for (let harmonic = 1; harmonic <= 8; harmonic++)
        sum += Math.sin((2 * Math.PI * 120 * harmonic * (at + i)) / RATE) / harmonic;
      return 6_000 * sum;
    });
    converter.push(samples);
    await otherWork();
    signal.throwIfAborted();
  }
}
