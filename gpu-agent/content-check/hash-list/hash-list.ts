import type { ContentCheck } from '../check.ts';
import { listFile } from '../list-file.ts';
import type { LookerProcessOptions } from '../looker/looker-process.ts';
import { lookingCheck } from '../looker/looking-check.ts';
import { parseEntry } from './entries.ts';
import type { HashLookerOptions } from './hash-looker.ts';

export type HashListOptions = HashLookerOptions & Pick<LookerProcessOptions, 'logger' | 'timeoutMs' | 'nice'>;

/** Rejects pictures, and videos with frames, that are on a list of hashes, and copies of them. */
export function hashList({ list, distance, ...process }: HashListOptions): ContentCheck {
  return lookingCheck({
    ...process,
    name: 'hash-list',
    about: `pictures and a frame of each second of video, against hashes of a list (PDQ within ${distance} bits, SHA-256)`,
    main: new URL('./looker-main.ts', import.meta.url),
    options: { list, distance },
    async assertUsable() {
      await listFile(list, parseEntry)();
    },
  });
}
