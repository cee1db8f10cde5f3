import { RenderError } from '@semblance/engine-api/engine';
import { type Clause, openPhonemiser } from './espeak.ts';
import { isOneSound, type Phone, soundOfIpa } from './sounds.ts';
import type { NeuralVoice } from './speech-tools.ts';
import { joined, type Synthesiser, type SynthesiserOptions, type Utterance } from './synthesiser.ts';

/** Symbols of Piper's alphabet that are no sounds: between two, before the first, after the last. */
const PAD = '_';
export const START = '^';
export const STOP = '$';
/** Silence between two sentences of a passage, in seconds. */
const SENTENCE_PAUSE_SEC = 0.2;
/** Longest space between words that is no pause but the beginning of the next sound, in seconds. */
const LINK_SEC = 0.1;
/** Signs that end a clause, as the voices know them. */
const ENDS: Readonly<Record<string, string>> = {
  '…': '.',
  '。': '.',
  '．': '.',
  '۔': '.',
  '।': '.',
  '॥': '.',
  '·': '.',
  '？': '?',
  '؟': '?',
  '！': '!',
  '，': ',',
  '、': ',',
  '،': ',',
  '—': ',',
  '–': ',',
  '：': ':',
  '；': ';',
  '؛': ';',
};

/** A symbol that a voice knows, and how many of the voice's numbers stand for it, with the padding before it. */
interface Symbol {
  readonly symbol: string;
  readonly count: number;
}

/**
 * Creates a speaker with a voice that is a model. espeak-ng turns the text into phonemes, in a process of its own,
 * and the model speaks one sentence at a time, as Piper does (its `phoneme_ids.py` and `phonemize_espeak.py`, read at
 * github.com/OHF-Voice/piper1-gpl).
 */
export function openNeural(
  voice: NeuralVoice,
  speaker: string | undefined,
  options: SynthesiserOptions,
): Synthesiser {
  const phonemiser = openPhonemiser(voice.espeak, options);
  const number = speaker === undefined ? 0 : (voice.speakers.get(speaker) ?? 0);
  return {
    async speak(text) {
      const spoken: Utterance[] = [];
      for (const sentence of sentencesOf(await phonemiser.clauses(text), voice)) {
        const one = await speakSentence(voice, number, sentence, options.signal);
        if (one) spoken.push(one);
      }
      return spoken.length > 0 ? joined(spoken, SENTENCE_PAUSE_SEC) : silent(voice);
    },
    close: phonemiser.close,
  };
}

const silent = ({ sampleRate }: NeuralVoice): Utterance => ({
  sampleRate,
  samples: new Int16Array(0),
  phones: [],
});

/**
 * Returns the symbols of each sentence. Names of languages in brackets, with which espeak-ng marks foreign words, are
 * left out.
 */
export function sentencesOf(
  clauses: readonly Clause[],
  { composed, longest }: Pick<NeuralVoice, 'composed' | 'longest'> = {},
): string[][] {
  const sentences: string[][] = [];
  const open: string[] = [];
  for (const [phonemes, sign] of clauses) {
    const plain = phonemes.replace(/\([^)]*\)/g, '').normalize(composed ? 'NFC' : 'NFD');
    if (!/\S/.test(plain)) continue;
    const end = ENDS[sign] ?? (sign || '.');
    open.push(...plain, end);
    if (',:;'.includes(end)) open.push(' ');
    else sentences.push(open.splice(0));
  }
  // A last clause that no sentence ends.
  if (open.length > 0) sentences.push(open);
  return longest === undefined ? sentences : sentences.flatMap((one) => shortened(one, longest));
}

/** Cuts a sentence at its last space within the most symbols at once. */
function shortened(sentence: readonly string[], most: number): string[][] {
  if (sentence.length <= most) return [[...sentence]];
  const space = sentence.lastIndexOf(' ', most - 1);
  const cut = space > 0 ? space : most;
  return [sentence.slice(0, cut), ...shortened(sentence.slice(cut + (space > 0 ? 1 : 0)), most)];
}

async function speakSentence(
  { phonemeIds, sampleRate, name, run }: NeuralVoice,
  speaker: number,
  sentence: readonly string[],
  signal: AbortSignal,
): Promise<Utterance | undefined> {
  const ids = (symbol: string): readonly number[] => phonemeIds.get(symbol) ?? [];
  const pad = ids(PAD);
  // A symbol that the voice was not trained on has no number and is silent, as in Piper.
  const known = sentence.filter((symbol) => ids(symbol).length > 0);
  if (!known.some((symbol) => soundOfIpa(symbol) !== undefined)) return undefined;
  const symbols: Symbol[] = [
    { symbol: START, count: ids(START).length },
    ...known.map((symbol) => ({ symbol, count: pad.length + ids(symbol).length })),
    { symbol: STOP, count: pad.length + ids(STOP).length },
  ];
  const numbers = [...ids(START), ...pad, ...known.flatMap((one) => [...ids(one), ...pad]), ...ids(STOP)];
  const { samples, frames } = await run(numbers, speaker, signal);
  const hop = samples.length / frames.reduce((sum, count) => sum + count, 0);
  if (frames.length !== numbers.length || !Number.isInteger(hop)) {
    throw new RenderError(
      'processing_failed',
      `The voice ${name} says ${frames.length} durations for ${numbers.length} phonemes, which do not fill its ${samples.length} samples.`,
    );
  }
  return {
    sampleRate,
    samples: Int16Array.from(samples, (value) => Math.round(32_767 * Math.max(-1, Math.min(1, value)))),
    phones: phonesOf(symbols, frames, hop / sampleRate),
  };
}

/**
 * Returns the sounds of a sentence. What lies before a sound belongs to it: the padding, a mark of stress, a short space,
 * as the closure of a stop or the first friction of an s is heard there. With the padding at the sound before, all
 * sounds would begin 20 ms late (measured on a voice of Piper: where vowels are against where the sound is loud).
 * Marks of length belong to the sound before them.
 * @param frames length of each number of the voice
 * @param unit seconds of a frame
 */
export function phonesOf(symbols: readonly Symbol[], frames: ArrayLike<number>, unit: number): Phone[] {
  const phones: { symbols: string; sound: Phone['sound']; start: number; end: number }[] = [];
  let at = 0;
  let time = 0;
  /** Where the next sound begins, if that is before its own symbol. */
  let early: number | undefined;
  for (const { symbol, count } of symbols) {
    const start = early ?? time;
    for (let i = 0; i < count; i++) time += unit * (frames[at++] ?? 0);
    const last = phones.at(-1);
    if (
      symbol === 'ˈ' ||
      symbol === 'ˌ' ||
      (symbol === ' ' && last?.sound !== undefined && time - start <= LINK_SEC)
    ) {
      early = start;
      continue;
    }
    const sound = soundOfIpa(symbol);
    const goesOn =
      last?.sound !== undefined &&
      early === undefined &&
      (isOneSound(last.symbols, symbol) || /^[\p{M}\p{Lm}˞]$/u.test(symbol));
    early = undefined;
    if (goesOn && last) {
      last.end = time;
      if (sound !== undefined) {
        last.symbols += symbol;
        last.sound = soundOfIpa(last.symbols);
      }
    } else if (sound === undefined && last && last.sound === undefined) last.end = time;
    else phones.push({ symbols: symbol, sound, start, end: time });
  }
  return phones
    .filter(({ start, end }) => end > start)
    .map(({ sound, start, end }) => ({ sound, start, end }));
}
