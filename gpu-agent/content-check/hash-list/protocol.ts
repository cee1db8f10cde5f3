import type { RenderErrorCode } from '@semblance/engine-api/engine';
import type { CheckSubject } from '../check.ts';

/** Holds what the process is told of a job. */
export type Looked = Pick<CheckSubject, 'phase' | 'files'>;

export type ToLooker =
  | ({ readonly type: 'look'; readonly id: number } & Looked)
  | { readonly type: 'cancel'; readonly id: number };

export type FromLooker = ({ readonly type: 'answer'; readonly id: number } & LookerAnswer) | StillLooking;

/** Sent while a look goes on, about once a second; one that stands still is given up. */
interface StillLooking {
  readonly type: 'looking';
  readonly id: number;
}

/** With none of the three, nothing was found. */
export interface LookerAnswer {
  /** Role of a file that is on the list. */
  readonly found?: string;
  /** The file cannot be read: its owner's affair. */
  readonly refused?: { readonly code: RenderErrorCode; readonly message: string };
  /** The comparison could not be made. */
  readonly failed?: string;
}
