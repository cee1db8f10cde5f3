import type { RenderErrorCode } from '@semblance/engine-api/engine';
import type { CheckSubject } from '../check.ts';

/** The part of a subject that the process receives. */
export type Looked = Pick<CheckSubject, 'phase' | 'files'>;

export type ToLooker =
  | ({ readonly type: 'look'; readonly id: number } & Looked)
  | { readonly type: 'cancel'; readonly id: number };

export type FromLooker = ({ readonly type: 'answer'; readonly id: number } & LookerAnswer) | StillLooking;

/** Sent repeatedly during a look; a look without it is given up. */
interface StillLooking {
  readonly type: 'looking';
  readonly id: number;
}

/** Nothing was found when no field is set. */
export interface LookerAnswer {
  /** Role of a file that is on the list. */
  readonly found?: string;
  /** The file is unreadable; its owner is at fault. */
  readonly refused?: { readonly code: RenderErrorCode; readonly message: string };
  /** The comparison did not work. */
  readonly failed?: string;
}
