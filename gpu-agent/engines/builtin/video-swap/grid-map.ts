import type { WarpMap } from '../swap/warp-map.ts';

/** For each row of a map the first column that it covers, and the one after the last. */
export function spansOf({ covered }: WarpMap): Int32Array {
  const { width, height, data } = covered;
  const spans = new Int32Array(height * 2);
  for (let y = 0; y < height; y++) {
    let start = 0;
    let end = width;
    while (start < width && data[y * width + start] === 0) start++;
    while (end > start && data[y * width + end - 1] === 0) end--;
    // An empty row takes no part when it is joined with the next.
    spans[y * 2] = start;
    spans[y * 2 + 1] = end > start ? end : 0;
  }
  return spans;
}

/** Columns of the grid between which the mesh lies at a height, one wider on both sides. */
export function spanAt(spans: Int32Array, y: number): { start: number; end: number } {
  const rows = spans.length / 2;
  const row = Math.min(rows - 1, Math.max(0, Math.floor(y - 0.5)));
  const next = Math.min(rows - 1, row + 1);
  return {
    start: Math.min(spans[row * 2] as number, spans[next * 2] as number) - 1,
    end: Math.max(spans[row * 2 + 1] as number, spans[next * 2 + 1] as number) + 1,
  };
}

/** Repeats the outermost places of each row beyond the mesh, so that nothing between two pixels is half unknown. */
export function widen({ x, y, covered }: WarpMap, spans: Int32Array): void {
  const { width, height } = x;
  let filled = -1;
  for (let row = 0; row < height; row++) {
    const start = row * width + (spans[row * 2] as number);
    const end = row * width + (spans[row * 2 + 1] as number);
    if (end <= start) {
      if (filled >= 0) copyRow(filled, row);
      continue;
    }
    for (const { data } of [x, y]) {
      // A row of the mesh may have a gap where it is folded.
      for (let i = start + 1; i < end; i++) if (!covered.data[i]) data[i] = data[i - 1] as number;
      data.fill(data[start] as number, row * width, start);
      data.fill(data[end - 1] as number, end, (row + 1) * width);
    }
    if (filled < 0) for (let above = 0; above < row; above++) copyRow(row, above);
    filled = row;
  }
  function copyRow(from: number, to: number): void {
    for (const { data } of [x, y]) data.copyWithin(to * width, from * width, (from + 1) * width);
  }
}
