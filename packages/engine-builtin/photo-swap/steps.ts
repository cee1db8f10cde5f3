import type { Findings } from '@semblance/engine-api/findings';
import type { BasePicture } from '@semblance/vision/image/picture-file';
import type { Input } from '../findings/hints.ts';
import type { RenderTools } from '../renderer.ts';

/** Path of the base image, or the picture itself. */
export type BaseSource = string | BasePicture;

/** How messages and hints name what the faces are put into. */
export interface BaseName extends Input {
  /** Field of the API. */
  readonly field: string;
}

export const IMAGE: BaseName = { role: 'image', name: 'base image', field: 'image_key' };

export type SwapTools = Pick<RenderTools, 'finder' | 'settings'>;

/** Receives what a swap has done. */
export interface Steps {
  readonly checkpoint: () => void;
  /** Called at the end of a stage. */
  readonly lap: (name: string, fraction: number, next: string) => void;
  readonly progress: (fraction: number, stage: string) => void;
  /** False: the base stays as it is. */
  readonly draw: boolean;
}

export interface Swapped {
  readonly base: BasePicture;
  readonly faces: number;
  /** Milliseconds by stage. */
  readonly times: Readonly<Record<string, number>>;
  readonly findings: Findings;
}
