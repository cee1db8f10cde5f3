import type { Measures } from './measures.ts';

/** One swap, measured. */
export interface Case {
  readonly label: string;
  /** What is special about it: `portraits`, an object in front, or a fault of the picture. */
  readonly kind: string;
  /** Undefined when no face was found in the target or in the result. */
  readonly measures: Measures | undefined;
  readonly likeness: number | undefined;
  /** How far the worst measure is outside its limits; 0 within all. */
  readonly worst: number;
  readonly faults: readonly string[];
  /** Source, target and result. */
  readonly cells: readonly Buffer[];
}
