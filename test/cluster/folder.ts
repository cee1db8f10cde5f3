import { mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/** Name of a file that marks a folder as a cluster's, so that no other folder is ever removed. */
const MARK = 'everything-here-is-of-a-test-cluster';

/** Creates the folder of a cluster. */
export async function takeFolder(dir: string): Promise<void> {
  await mkdir(dir, { recursive: true, mode: 0o755 });
  await writeFile(join(dir, MARK), '');
}

/**
 * Removes the folder of a cluster, if there is one.
 * @throws Error when the folder is not a cluster's
 */
export async function removeFolder(dir: string): Promise<void> {
  await checkFolder(dir);
  await rm(dir, { recursive: true, force: true, maxRetries: 5 });
}

/** @throws Error when the folder contains files and is not a cluster's */
export async function checkFolder(dir: string): Promise<void> {
  const names = await readdir(dir).catch(() => [] as string[]);
  if (names.length > 0 && !names.includes(MARK))
    throw new Error(
      `${dir} holds files that are no cluster's: SEMBLANCE_CLUSTER_DIR has to name a folder of its own`,
    );
}
