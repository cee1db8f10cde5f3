import { rename, writeFile } from 'node:fs/promises';

/** Writes a file that only its owner may read. A kill in between leaves the former content. */
export async function writeAtomically(file: string, text: string): Promise<void> {
  const unfinished = `${file}.unfinished`;
  await writeFile(unfinished, text, { mode: 0o600, flush: true });
  await rename(unfinished, file);
}
