import { writingOf } from './writings.ts';

/** A piece of a script that is spoken in one go, in one writing system. */
export interface Passage {
  readonly text: string;
  /** Unicode name of the writing system of most of its letters; undefined for digits and signs only. */
  readonly writing: string | undefined;
  /** Whether a paragraph ends with it. */
  readonly endsParagraph: boolean;
}

/** Approximate length of a passage in characters: enough for the melody of a few sentences, and little to hold. */
const PASSAGE_LENGTH = 400;
/**
 * Longest row of letters and digits given to a synthesiser, which takes quadratic time over longer ones or cuts
 * them.
 */
const LONGEST_WORD = 40;
/** Matches pictographs, and the frame around a keycap. Digits, # and * are emoji only with that frame. */
const PICTURES = /\p{Extended_Pictographic}|\p{Regional_Indicator}|\p{Emoji_Modifier}|\u20E3/gu;
/**
 * Matches invisible characters: direction marks, tags, variation selectors, word joiners. The two joiners of
 * letters are not matched.
 */
const INVISIBLE = /(?![\u200C\u200D])\p{Default_Ignorable_Code_Point}/gu;
/**
 * Matches joiners that are not part of a word's spelling. They belong to it after an Indic virama, where they
 * distinguish letters, and in Persian between parts of a word. Elsewhere they change only shapes, and synthesisers
 * take them for the end of a word.
 */
const IDLE_JOINERS =
  /(?<![\u094D\u09CD\u0A4D\u0ACD\u0B4D\u0BCD\u0C4D\u0CCD\u0D4D\u0DCA])(?:\u200D|\u200C(?!(?<=[\p{L}\p{M}\p{N}]\u200C)\p{Script=Arabic}))/gu;
/**
 * Matches compatibility forms of letters and numbers, which voices spell by code point or skip: full and half
 * width, bold, framed, raised, Roman numerals, presentation forms. It does not match ½, ² and ª, which voices read,
 * nor letters of a language such as the Thai ำ.
 */
const RESHAPED =
  /[\u017F\u01C4-\u01CC\u01F1-\u01F3\u02B0-\u02B8\u02E0-\u02E4\u03D0-\u03D6\u03F0-\u03F9\u1D2C-\u1D6A\u1D78\u1D9B-\u1DBF\u2090-\u209C\u2102-\u2149\u2160-\u2188\u249C-\u24E9\u2C7C\u2C7D\u3038-\u303A\u309F\u30FF\uFB00-\uFDFB\uFE70-\uFEFC\uFF10-\uFF19\uFF21-\uFF3A\uFF41-\uFF5A\uFF66-\uFF9F\u{1D400}-\u{1D7FF}\u{1E030}-\u{1E06D}\u{1EE00}-\u{1EEBB}\u{1F110}-\u{1F129}\u{1F130}-\u{1F149}]/gu;
/** Matches framed numbers. Each is a word of its own: ② and ③ in a row are not 23. */
const FRAMED =
  /[\u2460-\u249B\u24EA\u3220-\u3229\u3251-\u325F\u3280-\u3289\u32B1-\u32BF\u{1F100}-\u{1F10A}]/gu;
/** Matches signs that stand for letters: framed letters of Korean or Japanese, units in one square, radicals, ₨. */
const SIGNS_OF_LETTERS = /\p{S}/gu;
/** Matches spoken signs of full width. Signs that only make a pause need no change. */
const WIDE_SIGNS = /[＃＄％＆＊＋＜＝＞＠]|(?<=\p{Nd})[．，：](?=\p{Nd})/gu;
/** Matches spaces of all kinds, controls, and placeholders. */
const SPACES = /[\p{Cc}\p{Zs}\p{Zl}\uFFFC\uFFFD]|[\p{Co}\p{Cn}]/gu;
const SPOKEN = /[\p{L}\p{N}]/u;

/**
 * Returns the spoken part of a script: without controls, direction marks and pictures, with uniform white space.
 * Paragraphs stay apart, and words with invisible characters stay whole.
 */
export function cleanText(script: string): string {
  return (
    script
      .toWellFormed()
      .replace(/\r\n?|[\u0085\u2028\u2029\v\f]/g, '\n')
      .replace(PICTURES, (sign) => (/[©®™]/u.test(sign) ? sign : ' '))
      .replace(/[\uFFF9-\uFFFB]/g, ' ')
      .replace(INVISIBLE, '')
      .replace(/([\u200C\u200D])[\u200C\u200D]+/g, '$1')
      .replace(IDLE_JOINERS, '')
      .replace(SPACES, (sign) => (sign === '\n' ? sign : ' '))
      .replace(RESHAPED, plainly)
      .replace(FRAMED, (sign) => ` ${plainly(sign)} `)
      .replace(SIGNS_OF_LETTERS, (sign) => (/\p{L}/u.test(plainly(sign)) ? ` ${plainly(sign)} ` : sign))
      .replace(WIDE_SIGNS, plainly)
      .normalize('NFC')
      // Every voice reads these digits, and some do not read those of their own language.
      .replace(/\p{Nd}/gu, asciiDigit)
      .replace(/(?<=[0-9])[٫٬](?=[0-9])/g, (sign) => (sign === '٫' ? '.' : ','))
      .replace(/ *\n */g, '\n')
      .replace(/ {2,}/g, ' ')
      .trim()
  );
}

const plainly = (sign: string): string => sign.normalize('NFKC');

/** Returns a decimal digit of any script as 0 to 9. Digits stand in rows of ten, the zero first. */
export function asciiDigit(digit: string): string {
  const code = digit.codePointAt(0) as number;
  let first = code;
  while (/\p{Nd}/u.test(String.fromCodePoint(first - 1))) first--;
  return String((code - first) % 10);
}

/** Cuts a script into passages, in order. Everything that can be spoken is in one of them. */
export function passagesOf(script: string): Passage[] {
  const out: Passage[] = [];
  for (const paragraph of cleanText(script).split(/\n+/)) {
    let text = '';
    let writing: string | undefined;
    const flush = (endsParagraph: boolean): void => {
      if (SPOKEN.test(text)) out.push({ text: text.trim(), writing, endsParagraph });
      text = '';
      writing = undefined;
    };
    for (const sentence of sentencesOf(paragraph)) {
      const own = writingOf(sentence);
      const other = own !== undefined && writing !== undefined && own !== writing;
      if (other || text.length + sentence.length > PASSAGE_LENGTH) flush(false);
      text += sentence;
      writing ??= own;
    }
    flush(true);
  }
  return out;
}

/** Returns sentences; long ones are cut at pauses, then at spaces, then anywhere between characters. */
function sentencesOf(paragraph: string): string[] {
  const sentences = new Intl.Segmenter('en', { granularity: 'sentence' });
  return [...sentences.segment(paragraph)]
    .map(({ segment }) => breakWords(segment))
    .flatMap((sentence) => (sentence.length <= PASSAGE_LENGTH ? [sentence] : cut(sentence)));
}

function cut(sentence: string): string[] {
  const out: string[] = [];
  let rest = sentence;
  while (rest.length > PASSAGE_LENGTH) {
    const head = rest.slice(0, PASSAGE_LENGTH);
    const pause = Math.max(...[...head.matchAll(/[,;:،、，；：—–-]\s/g)].map(({ index }) => index + 2), 0);
    const space = head.lastIndexOf(' ') + 1;
    let at = pause > PASSAGE_LENGTH / 3 ? pause : space > PASSAGE_LENGTH / 3 ? space : PASSAGE_LENGTH;
    // The cut must not be between the halves of a character, nor before a mark that belongs to it.
    while (at > 1 && /^[\uDC00-\uDFFF]|^\p{M}|^\u200D/u.test(rest.slice(at))) at--;
    out.push(rest.slice(0, at));
    rest = rest.slice(at);
  }
  return [...out, rest];
}

/**
 * Inserts spaces into rows of letters longer than any word. Scripts without spaces between words are left
 * unchanged.
 */
function breakWords(text: string): string {
  return text.replace(
    /[^\s\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Myanmar}]{41,}/gu,
    (word) => {
      const parts: string[] = [];
      let part = '';
      for (const { segment } of new Intl.Segmenter('en', { granularity: 'grapheme' }).segment(word)) {
        if (part.length + segment.length > LONGEST_WORD) {
          parts.push(part);
          part = '';
        }
        // A letter with too many marks keeps only the first ones; it is no letter any more.
        part += segment.slice(0, LONGEST_WORD);
      }
      return [...parts, part].filter((piece) => piece !== '').join(' ');
    },
  );
}
