import { existsSync, statSync } from 'node:fs';
import { copyFile, rename, rm, truncate } from 'node:fs/promises';

/** Size in bytes above which a log is rotated, and number of rotated files to keep. */
const LOG_LIMITS = { maxBytes: 16 * 1024 * 1024, keep: 3 };

/**
 * Rotates a log that has grown too large: `x.log` → `x.log.1` → `x.log.2` …
 *
 * @param open whether a process appends to the file. Then it is copied and truncated instead of renamed, because
 * the
 *   process would go on writing to the renamed one. Lines written between the two steps are lost.
 * @returns whether it was rotated
 */
export async function rotateLog(options: {
  file: string;
  open: boolean;
  maxBytes?: number;
  keep?: number;
}): Promise<boolean> {
  const { file, open, maxBytes = LOG_LIMITS.maxBytes, keep = LOG_LIMITS.keep } = options;
  const size = statSync(file, { throwIfNoEntry: false })?.size ?? 0;
  if (size <= maxBytes) return false;
  await rm(`${file}.${keep}`, { force: true });
  for (let number = keep - 1; number >= 1; number--) {
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
