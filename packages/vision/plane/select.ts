/**
 * Returns the value at `rank` of the sorted list (Hoare's selection, 1961); 0 for an empty list. Reorders the list.
 */
export function select(values: Float32Array | Float64Array, rank: number): number {
  let left = 0;
  let right = values.length - 1;
  while (left < right) {
    const pivot = values[(left + right) >> 1] as number;
    let i = left;
    let j = right;
    while (i <= j) {
      while ((values[i] as number) < pivot) i++;
      while ((values[j] as number) > pivot) j--;
      if (i > j) break;
      const swap = values[i] as number;
      values[i++] = values[j] as number;
      values[j--] = swap;
    }
    if (rank <= j) right = j;
    else if (rank >= i) left = i;
    else break;
  }
  return values[rank] ?? 0;
}
