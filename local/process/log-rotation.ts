import { existsSync, statSync } from 'node:fs';
import { copyFile, rename, rm, truncate } from 'node:fs/promises';

/** Size in bytes above which a log is rotated, and number of rotated files to keep. */
export const MAX_BYTES = 16 * 1024 * 1024;
export const KEPT = 3;

/**
 * Rotates a log that has grown too large: `x.log` → `x.log.1` → `x.log.2` …
 *
 * @param open whether a process appends to the file. Then it is copied and truncated instead of renamed, because
 * the
 *   process would go on writing to the renamed one. Lines written between the two steps are lost.
 * @returns whether it was rotated
 */
export async function rotateLog({ file, open }: { file: string; open: boolean }): Promise<boolean> {
  const size = statSync(file, { throwIfNoEntry: false })?.size ?? 0;
  if (size <= MAX_BYTES) return false;
  await rm(`${file}.${KEPT}`, { force: true });
  for (let number = KEPT - 1; number >= 1; number--) {
    if (existsSync(`${file}.${number}`)) await rename(`${file}.${number}`, `${file}.${number + 1}`);
  }
  if (open) {
    await copyFile(file, `${file}.1`);
    await truncate(file);
  } else {
    await rename(file, `${file}.1`);
  }
  return true;
}
