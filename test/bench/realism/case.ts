import type { Measures } from './measures.ts';

/** One swap, measured. */
export interface Case {
  readonly label: string;
  /** What is special about it: `portraits`, an object in front, a fault of the picture, an expression, a motion. */
  readonly kind: string;
  /** Undefined when no face was found in the target or in the result. */
  readonly measures: Measures | undefined;
  readonly likeness: number | undefined;
  /** Who wears glasses, as the engine sees it. */
  readonly glasses?: { readonly source: boolean; readonly target: boolean };
  /** Of a clip: how much more a region's colour steps from frame to frame than before the swap, Lab. */
  readonly flicker?: number | undefined;
  /** How far the worst measure is outside its limits; 0 within all. */
  readonly worst: number;
  readonly faults: readonly string[];
  /** Source, target and result. */
  readonly cells: readonly Buffer[];
}
