import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createMedia, findMediaTools } from '@semblance/media/media';
import type { Media } from '@semblance/media/types';

/** Runs cases with a reader of videos and a folder, which goes afterwards. Without ffmpeg it says so and runs none. */
export async function* withMedia<T>(
  say: (line: string) => void,
  cases: (media: Media, folder: string) => AsyncGenerator<T>,
): AsyncGenerator<T> {
  const tools = await findMediaTools();
  if (!tools.available) return say(`no clips: ${tools.reason}`);
  const media = createMedia({ tools });
  const folder = await mkdtemp(join(tmpdir(), 'semblance-realism-'));
  try {
    yield* cases(media, folder);
  } finally {
    await media.close();
    await rm(folder, { recursive: true, force: true });
  }
}
