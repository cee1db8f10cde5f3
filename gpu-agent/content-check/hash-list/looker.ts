import { openPicture } from '@semblance/vision/image/picture-file';
import type { CheckedFile } from '../check.ts';
import { listFile } from '../list-file.ts';
import { matches, parseEntry } from './entries.ts';
import { createFingerprints } from './fingerprints.ts';
import type { Looked } from './protocol.ts';

export interface LookerOptions {
  readonly list: string;
  /** Most bits in which a PDQ hash may differ from one of the list. */
  readonly distance: number;
}

/** The work of the hash list process: finds the first file that is on the list. */
export interface Looker {
  /** @param onStep called often while files are examined */
  find(looked: Looked, signal: AbortSignal, onStep: () => void): Promise<CheckedFile | undefined>;
  close(): Promise<void>;
}

export function createLooker({ list, distance }: LookerOptions): Looker {
  const entries = listFile(list, parseEntry);
  const fingerprints = createFingerprints();
  return {
    async find({ phase, files }, signal, onStep) {
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
    },
    close: () => fingerprints.close(),
  };
}
