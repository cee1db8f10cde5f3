import { statfs } from 'node:fs/promises';
import { describeError } from '@semblance/common/errors';
import { CommandError } from '@semblance/common/process/run';

const FULL = /no space left on device|disk is full|disk quota exceeded|ENOSPC|EDQUOT/i;
/** Space in its folder for a first build of all images, temporary files included, in bytes. */
const FIRST_BUILD_BYTES = 4e9;

/**
 * Runs the work. If it fails on a disk with little room, the thrown error says so and gives advice. Builders do not
 * always report a full disk as the cause, and free its space before they end.
 */
export async function withAdvice<T>(folder: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const said = error instanceof CommandError ? error.output : describeError(error);
    const { bavail, bsize } = await statfs(folder);
    const full = FULL.test(said);
    if (!full && bavail * bsize >= FIRST_BUILD_BYTES) throw error;
    const free = `${Math.round((bavail * bsize) / 1e6)} MB are free in ${folder}`;
    throw new Error(
      `${full ? 'a disk is full' : 'it failed, perhaps for want of room'}: ${free}, where a first build takes about ` +
        `${FIRST_BUILD_BYTES / 1e9} GB, and a node needs as much as its images have. Make room, or set ` +
        'SEMBLANCE_CACHE_DIR to a folder on another disk (what is in this one may be deleted while nobody builds)',
      { cause: error },
    );
  }
}
