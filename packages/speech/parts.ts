import { RenderError } from '@semblance/engine-api/engine';
import type { Passage } from './script-text.ts';
import type { SpeechTools } from './speech-tools.ts';
import { reads, type Voice, voiceFor, voiceId, voiceOfWriting } from './voices.ts';
import { SYMBOL, writingOfLetter } from './writings.ts';

/** A piece of a passage and its voice. */
export interface Part {
  readonly text: string;
  readonly voice: Voice;
  /** Whether a paragraph ends with it. */
  readonly endsParagraph: boolean;
}

/** A script divided among the voices. */
export interface SharedScript {
  readonly parts: readonly Part[];
  /** Single letters that no voice reads, with their writing systems, such as `ក (Khmer)`. */
  readonly leftOut: readonly string[];
}

/** Matches rows of letters and digits, with the marks between them. */
const WORDS = /[\p{L}\p{N}](?:[\p{L}\p{M}\p{N}'’]|\u200C|\u200D)*/gu;
const LETTER = /[\p{L}\p{N}]/u;
/** Most letters named in a message. */
const MAX_NAMED = 5;

/** A row of letters of one writing system. */
interface Run {
  readonly text: string;
  readonly at: number;
  readonly writing: string | undefined;
  /** Number of letters of this writing system; there may be digits beside them. */
  readonly letters: number;
}

/**
 * Assigns the text to voices. The chosen voice speaks everything that it can read, and other voices speak the other
 * words. A script with words that no voice reads is refused, because the paid result would lack them. A single
 * letter, as in a formula, is left out.
 * @throws RenderError `processing_failed`
 */
export function shareOut(tools: SpeechTools, chosen: Voice, passages: readonly Passage[]): SharedScript {
  const parts: Part[] = [];
  const leftOut = new Map<string, string>();
  const words: string[] = [];
  for (const passage of passages) {
    const { pieces, unread } = piecesOf(tools, voiceFor(tools, chosen, passage), passage.text);
    for (const { run, letters } of unread) {
      const isWord = letters.length > 1 && letters.length === run.letters && run.writing !== SYMBOL;
      if (isWord) words.push(run.text);
      else for (const letter of letters) leftOut.set(letter, nameOf(letter));
    }
    for (const [i, piece] of pieces.entries()) {
      parts.push({ ...piece, endsParagraph: passage.endsParagraph && i === pieces.length - 1 });
    }
  }
  if (words.length > 0) throw unreadable(words);
  if (parts.length === 0) throw unreadable([...leftOut.keys()]);
  return { parts, leftOut: [...leftOut].map(([letter, writing]) => `${letter} (${writing})`) };
}

/** Cuts a text where the voice must change; letters that no voice reads are dropped. */
function piecesOf(tools: SpeechTools, own: Voice, text: string) {
  const cuts: { readonly from: number; readonly voice: Voice }[] = [{ from: 0, voice: own }];
  const unread: { readonly run: Run; readonly letters: readonly string[] }[] = [];
  let readable = text;
  let end = 0;
  for (const run of runsOf(text)) {
    const letters = lettersOf(run).filter((letter) => !reads(own, letter));
    const voice = letters.length === 0 ? own : readerOf(tools, run, own);
    if (voice === undefined) {
      unread.push({ run, letters });
      readable = without(readable, run, letters);
    } else if (voiceId(voice) !== voiceId(cuts.at(-1)?.voice ?? own)) {
      // A closing sign stays with its word; an opening sign goes to the next word.
      const space = text.slice(end, run.at).search(/\s/);
      cuts.push({ from: space < 0 ? run.at : end + space, voice });
    }
    end = run.at + run.text.length;
  }
  const pieces = cuts
    .map(({ from, voice }, i) => ({ voice, text: readable.slice(from, cuts[i + 1]?.from).trim() }))
    .filter((piece) => LETTER.test(piece.text));
  return { pieces, unread };
}

/**
 * Returns words, cut where their writing system changes. A letter of several writing systems belongs to the letters
 * before it.
 */
function runsOf(text: string): Run[] {
  const out: Run[] = [];
  for (const { 0: word, index } of text.matchAll(WORDS)) {
    let run: Run = { text: '', at: index, writing: undefined, letters: 0 };
    for (const sign of word) {
      const writing = LETTER.test(sign) ? writingOfLetter(sign) : undefined;
      if (writing !== undefined && run.writing !== undefined && writing !== run.writing) {
        out.push(run);
        run = { text: '', at: run.at + run.text.length, writing, letters: 0 };
      }
      const letters = run.letters + (writing === undefined ? 0 : 1);
      run = { ...run, text: run.text + sign, writing: run.writing ?? writing, letters };
    }
    out.push(run);
  }
  return out;
}

const lettersOf = ({ text }: Run): string[] => [...text].filter((sign) => LETTER.test(sign));

/** Returns the voice for a run that the passage's voice cannot read. */
function readerOf(tools: SpeechTools, run: Run, own: Voice): Voice | undefined {
  const voice = voiceOfWriting(tools, run.writing ?? 'Latin', own);
  return voice && lettersOf(run).every((letter) => reads(voice, letter)) ? voice : undefined;
}

/** Replaces these letters of a run, and their marks, by spaces. */
function without(text: string, { at, text: own }: Run, letters: readonly string[]): string {
  const rest = own.replace(/(\p{L}|\p{N})[\p{M}\u200C\u200D]*/gu, (sign, letter: string) =>
    letters.includes(letter) ? ' '.repeat(sign.length) : sign,
  );
  return text.slice(0, at) + rest + text.slice(at + own.length);
}

/** Returns the name of a letter's writing system. */
function nameOf(letter: string): string {
  const writing = writingOfLetter(letter);
  if (writing === undefined) return SYMBOL;
  const code = (letter.codePointAt(0) as number).toString(16).toUpperCase().padStart(4, '0');
  return writing === 'Unknown' ? `U+${code}` : writing.replaceAll('_', ' ');
}

function unreadable(words: readonly string[]): RenderError {
  const writings = new Set(
    words.map((word) => nameOf([...word].find((sign) => writingOfLetter(sign) !== undefined) ?? word)),
  );
  const named = words.slice(0, MAX_NAMED).map((word) => `"${[...word].slice(0, 40).join('')}"`);
  const more = words.length > MAX_NAMED ? ` and ${words.length - MAX_NAMED} more` : '';
  return new RenderError(
    'processing_failed',
    `No voice here reads the writing of a part of the script: ${[...writings].join(', ')} (${named.join(', ')}${more}). ` +
      'Leave that out, or write it in letters that a voice reads.',
  );
}
