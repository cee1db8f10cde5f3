import type { CheckedFile } from '../check.ts';
import type { Looked } from './protocol.ts';

/** The work of a process that opens callers' files: finds the first one that is not allowed. */
export interface Looker {
  /** @param onStep called often while files are examined */
  find(looked: Looked, signal: AbortSignal, onStep: () => void): Promise<CheckedFile | undefined>;
  close(): Promise<void>;
}
