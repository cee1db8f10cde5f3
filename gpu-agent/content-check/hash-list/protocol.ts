import type { RenderErrorCode } from '../../engines/engine.ts';
import type { CheckedFile } from '../check.ts';

export type ToLooker =
  | { readonly type: 'look'; readonly id: number; readonly files: readonly CheckedFile[] }
  | { readonly type: 'cancel'; readonly id: number };

/** With none of the three, nothing was found. */
export interface FromLooker {
  readonly id: number;
  /** Role of a file that is on the list. */
  readonly found?: string;
  /** The file cannot be read: its owner's affair. */
  readonly refused?: { readonly code: RenderErrorCode; readonly message: string };
  /** The comparison could not be made. */
  readonly failed?: string;
}
