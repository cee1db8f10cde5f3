import { withOneDecoder } from '@semblance/vision/image/decoder';
import { openPicture } from '@semblance/vision/image/picture-file';
import { listFile } from '../list-file.ts';
import type { Looker } from '../looker/looker.ts';
import { matches, parseEntry } from './entries.ts';
import { createFingerprints } from './fingerprints.ts';

export interface HashLookerOptions {
  readonly list: string;
  /** Most bits in which a PDQ hash may differ from one of the list. */
  readonly distance: number;
}

/** Creates the work of the hash list's process, which finds the first file that is on the list. */
export function createHashLooker({ list, distance }: HashLookerOptions): Looker {
  const entries = listFile(list, parseEntry);
  const fingerprints = createFingerprints();
  return {
    find: ({ phase, files }, signal, onStep) =>
      // The pictures of one attempt share a process.
      withOneDecoder(async () => {
        const held = await entries();
        const exact = new Set(held.flatMap((entry) => (entry.kind === 'sha256' ? [entry.hash] : [])));
        const alike = held.filter(({ kind }) => kind === 'pdq');
        for (const file of files) {
          // The caller may be gone, so no further file is decoded.
          signal.throwIfAborted();
          onStep();
          if (exact.size > 0 && exact.has(await fingerprints.sha256(file.path, signal, onStep))) return file;
          if (alike.length === 0) continue;
          // Formats that engines refuse are refused in the same way here, and reach no other decoder.
          if (phase === 'input' && file.kind === 'image') {
            await openPicture(file.path, `The input ${file.role}`);
            signal.throwIfAborted();
          }
          for await (const seen of fingerprints.perceptual(file.path, file.kind, signal, onStep)) {
            if (matches(alike, seen, distance)) return file;
          }
        }
        return undefined;
      }),
    close: () => fingerprints.close(),
  };
}
