import { seeded } from '@semblance/testkit/sound/random';
import { RATE, speech } from '@semblance/testkit/voice/sounds';

/** A sentence and a pause with a click in it. */
export interface Turn {
  readonly samples: Int16Array;
  /** Index of the sentence with which it begins. */
  readonly sentence: number;
  /** Length of the sentence, in samples. */
  readonly said: number;
  /** Position of the click, in samples. */
  readonly click: number;
}

const SPEAKER = 'flite rms';
const SENTENCES = [
  'She had your dark suit in greasy wash water all year.',
  'A single file of late trains rolled by the old harbour.',
  'She had five lazy zebras.',
] as const;
const CLICK = 20_000;
/** Silence before and after a click, in samples. */
const AROUND = 0.15 * RATE;
/** Largest difference between two pauses, in samples. */
const SPREAD = 0.6 * RATE;

/**
 * Returns a generator of endless turns, the same in each run. Sentences, pauses and clicks are irregular. The
 * memory of a turn is used again for the one after the next, so that it does not grow beside what is measured.
 */
export async function turns(): Promise<() => Turn> {
  const sentences = await Promise.all(SENTENCES.map((words) => speech(SPEAKER, words)));
  const random = seeded(11);
  const longest = Math.max(...sentences.map(({ length }) => length)) + 2 * (AROUND + SPREAD);
  let [spare, used] = [new Int16Array(longest), new Int16Array(longest)];
  return () => {
    const sentence = Math.floor(random() * sentences.length);
    const words = sentences[sentence] as Int16Array;
    const click = words.length + AROUND + Math.floor(random() * SPREAD);
    [spare, used] = [used, spare];
    const samples = used.subarray(0, click + AROUND + Math.floor(random() * SPREAD)).fill(0);
    samples.set(words);
    samples[click] = CLICK;
    return { samples, sentence, said: words.length, click };
  };
}
