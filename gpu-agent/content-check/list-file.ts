import { readFile, stat } from 'node:fs/promises';
import { describeError } from '@semblance/common/errors';
import { ContentCheckError } from './check.ts';

/**
 * Returns a reader of a list file with one entry per line; `#` begins a comment line. The reader reads the file
 * again when it has changed.
 * @param parse throws an Error that says what is wrong with a line
 */
export function listFile<T>(path: string, parse: (line: string) => T): () => Promise<readonly T[]> {
  let held: { seen: string; entries: readonly T[] } | undefined;
  return async () => {
    try {
      const { mtimeMs, size, ino } = await stat(path);
      const seen = `${mtimeMs} ${size} ${ino}`;
      if (held?.seen !== seen) held = { seen, entries: parseLines(await readFile(path, 'utf8'), parse) };
      return held.entries;
    } catch (cause) {
      throw new ContentCheckError(`the list ${path} cannot be used: ${describeError(cause)}`, { cause });
    }
  };
}

function parseLines<T>(text: string, parse: (line: string) => T): T[] {
  return text.split(/\r?\n/).flatMap((each, index) => {
    const line = each.trim();
    if (line === '' || line.startsWith('#')) return [];
    try {
      return [parse(line)];
    } catch (error) {
      throw new Error(`line ${index + 1}: ${describeError(error)}`, { cause: error });
    }
  });
}
