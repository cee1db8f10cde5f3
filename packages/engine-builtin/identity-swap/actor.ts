import type { Person } from '@semblance/vision/person';
import type { Plane } from '@semblance/vision/plane/plane';
import type { Planes } from '../animate/openings.ts';
import type { Colors } from '../video-swap/frame-part.ts';
import type { Affine } from './geometry.ts';
import type { BackgroundPlate } from './plate.ts';

/** What the frames of a video have in common for everything that is drawn on them. */
export interface Stage {
  readonly width: number;
  readonly height: number;
  readonly colors: Colors;
  readonly plate: BackgroundPlate;
  readonly checkpoint: () => void;
}

/** A person in a frame, and what is known of the next frames. */
export interface Sighting {
  /** The frame, which is drawn on. */
  readonly data: Uint8Array;
  readonly planes: Planes;
  readonly ptsUs: number;
  readonly person: Person;
  /** Points of the person's face, in pixels of the frame. */
  readonly face: Float32Array | undefined;
  /** Distance of each chroma pixel from the person. */
  readonly distance: Plane;
  /** From the plate to the frame. */
  readonly map: Affine;
  readonly ahead: readonly {
    readonly person: Person | undefined;
    readonly face: Float32Array | undefined;
  }[];
}

/** Draws a character over the person of each frame. */
export interface Actor {
  /** Frames in which its head follows a face. */
  readonly faces: number;
  /** Draws over one frame. @returns whether the person was replaced */
  draw(sighting: Sighting): boolean;
  /** Forgets how the person moves, as after its absence. */
  forget(): void;
  /** Forgets the shot: another person in another light follows. */
  cut(): void;
}
