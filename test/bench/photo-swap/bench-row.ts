/** One line of a benchmark table; `met` is undefined for a figure without a goal. */
export interface BenchRow {
  readonly name: string;
  readonly ours: number;
  readonly peer?: number;
  readonly ratio?: number;
  readonly goal?: string;
  readonly met?: boolean;
  readonly unit: string;
}
