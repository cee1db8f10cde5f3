import { ALLOWED, type ContentCheck } from './check.ts';
import { listFile } from './list-file.ts';

/** Parameters in which callers write what is to be said. */
const TEXTS = ['script'];
/** Scripts that put no spaces between words: there, an entry is found anywhere. */
const UNSPACED =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/u;

/** Refuses texts with words or phrases of a list. @param path one of them a line */
export function wordList(path: string): ContentCheck {
  const patterns = listFile(path, (line) => patternOf(plain(line)));
  return {
    name: 'word-list',
    about: 'texts to be spoken, for words of a list',
    async assertUsable() {
      await patterns();
    },
    async check({ phase, parameters }) {
      const entries = await patterns();
      if (phase === 'output') return ALLOWED;
      const found = TEXTS.some((name) => {
        const text = plain(parameters[name] ?? '');
        return entries.some((entry) => entry.test(text));
      });
      return found
        ? { allowed: false, reason: 'The script contains words that are not allowed here.' }
        : ALLOWED;
    },
    close: async () => {},
  };
}

/** Case, width, accents, invisible characters and spacing make no difference. */
function plain(text: string): string {
  return text
    .normalize('NFKD')
    .replace(/[\p{M}\p{Cf}]/gu, '')
    .toLowerCase()
    .replace(/[\s\p{Z}]+/gu, ' ')
    .trim();
}

function patternOf(entry: string): RegExp {
  if (entry === '') throw new Error('an entry without letters');
  // These and no others: where Unicode is told apart, escaping what needs none is an error.
  const escaped = entry.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&');
  return new RegExp(UNSPACED.test(entry) ? escaped : `(?<![\\p{L}\\p{N}])${escaped}(?![\\p{L}\\p{N}])`, 'u');
}
