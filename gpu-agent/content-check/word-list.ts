import { ALLOWED, type ContentCheck } from './check.ts';
import { listFile } from './list-file.ts';

/** Parameters whose text is spoken or shown. */
const TEXTS = ['script', 'prompt'];
/** Begins the name of an option of the engine; any may be a text. */
const OPTION = 'engine_options.';
/** Scripts without spaces between words, in which an entry matches anywhere. */
const UNSPACED =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/u;

/** Invisible and silent characters; a word that contains them would be spoken all the same. */
const INVISIBLE = /[\p{Default_Ignorable_Code_Point}\p{Cf}]/gu;
/** Accents of alphabets, also on letters of other scripts, and the tone marks of the Vedas. */
const ACCENTS = /[\p{M}&&[\u0300-\u036F\u0951-\u0954\u1CD0-\u1CFA\uA8E0-\uA8F1]]/gv;
/**
 * Scripts in which a mark is a letter: a vowel, the end of a syllable, the difference between か and が. In other
 * scripts marks are accents.
 */
const LETTERED_BY_MARKS = [
  ...['Hiragana', 'Katakana', 'Thai', 'Lao', 'Khmer', 'Myanmar', 'Devanagari', 'Bengali', 'Gurmukhi'],
  ...['Gujarati', 'Oriya', 'Tamil', 'Telugu', 'Kannada', 'Malayalam', 'Sinhala', 'Tibetan', 'Thaana'],
  ...['Javanese', 'Balinese', 'Sundanese', 'Tai_Tham', 'Tai_Viet', 'New_Tai_Lue', 'Cham', 'Chakma'],
  ...['Meetei_Mayek', 'Limbu', 'Lepcha', 'Newa', 'Tirhuta', 'Saurashtra', 'Syloti_Nagri', 'Buginese'],
  ...['Kayah_Li', 'Rejang', 'Batak', 'Phags_Pa'],
].map((name) => new RegExp(`^\\p{Script_Extensions=${name}}`, 'u'));

/**
 * Rejects texts with words or phrases of a list.
 * @param path list with one entry per line
 */
export function wordList(path: string): ContentCheck {
  const patterns = listFile(path, (line) => patternOf(plain(line)));
  return {
    name: 'word-list',
    about: 'scripts and prompts, for words of a list',
    async assertUsable() {
      await patterns();
    },
    async check({ phase, parameters }) {
      const entries = await patterns();
      if (phase === 'output') return ALLOWED;
      const texts = Object.keys(parameters).filter((name) => TEXTS.includes(name) || name.startsWith(OPTION));
      const found = texts.find((name) => {
        const text = plain(parameters[name] ?? '');
        return entries.some((entry) => entry.test(text));
      });
      return found
        ? { allowed: false, reason: `The ${found} contains words that are not allowed here.` }
        : ALLOWED;
    },
    close: async () => {},
  };
}

/** Removes differences of case, width, accents, invisible characters and spacing. */
function plain(text: string): string {
  return text
    .normalize('NFKD')
    .replace(INVISIBLE, '')
    .replace(ACCENTS, '')
    .replace(/(\P{M}?)(\p{M}+)/gu, (_, base: string, marks: string) => base + ownMarks(base, marks))
    .normalize('NFC')
    .toLowerCase()
    .replace(/[\s\p{Z}]+/gu, ' ')
    .trim();
}

/** Returns the marks on a letter that are letters of its own script. */
function ownMarks(base: string, marks: string): string {
  const own = LETTERED_BY_MARKS.filter((writing) => writing.test(base));
  return [...marks].filter((mark) => own.some((writing) => writing.test(mark))).join('');
}

function patternOf(entry: string): RegExp {
  if (entry === '') throw new Error('an entry without letters');
  // Other characters must not be escaped: with the flag `v` that is an error.
  const escaped = entry.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&');
  // A mark that remains is part of its letter, so an entry does not match before one.
  return new RegExp(
    UNSPACED.test(entry)
      ? `${escaped}(?!\\p{M})`
      : `(?<![\\p{L}\\p{M}\\p{N}])${escaped}(?![\\p{L}\\p{M}\\p{N}])`,
    'u',
  );
}
