import { seeded } from '@semblance/testkit/sound/random';
import { RATE, speech } from '@semblance/testkit/voice/sounds';

/** Somebody who speaks, and pauses; in each pause there is a click. */
export interface Turn {
  readonly samples: Int16Array;
  /** Which of the sentences it begins with. */
  readonly sentence: number;
  /** Length of that. */
  readonly said: number;
  /** Sample of the click. */
  readonly click: number;
}

const SPEAKER = 'flite rms';
const SENTENCES = [
  'She had your dark suit in greasy wash water all year.',
  'A single file of late trains rolled by the old harbour.',
  'She had five lazy zebras.',
] as const;
const CLICK = 20_000;
/** Nothing else is heard so long before and after a click. */
const AROUND = 0.15 * RATE;
/** What pauses differ by at most. */
const SPREAD = 0.6 * RATE;

/**
 * Turns without end, the same each time: which sentence comes, how long a pause is and when it clicks is irregular. The
 * memory of a turn is used again for the one after the next, so that nothing here grows beside what is measured.
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
