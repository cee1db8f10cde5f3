interface Stored {
  readonly width: number;
  readonly height: number;
  readonly data: Uint8Array<ArrayBuffer>;
}

/**
 * Turns RGB pixels upright.
 * @param orientation how they are stored (Exif 2.32, tag 0x0112), 1 to 8; 1 is upright
 */
export function upright(pixels: Stored, orientation: number): Stored {
  if (orientation === 1) return pixels;
  const { width: columns, height: rows, data } = pixels;
  const sideways = orientation > 4;
  const [width, height] = sideways ? [rows, columns] : [columns, rows];
  // Whether the first stored column, and the first stored row, becomes the last.
  const fromRight = [2, 3, 7, 8].includes(orientation);
  const fromBottom = [3, 4, 6, 7].includes(orientation);
  const start = (fromRight ? columns - 1 : 0) + (fromBottom ? rows - 1 : 0) * columns;
  const [alongRow, alongColumn] = [fromRight ? -1 : 1, fromBottom ? -columns : columns];
  const [stepX, stepY] = sideways ? [alongColumn, alongRow] : [alongRow, alongColumn];
  const turned = new Uint8Array(data.length);
  for (let y = 0, to = 0; y < height; y++) {
    for (let x = 0, from = start + y * stepY; x < width; x++, to += 3, from += stepX) {
      turned[to] = data[from * 3] as number;
      turned[to + 1] = data[from * 3 + 1] as number;
      turned[to + 2] = data[from * 3 + 2] as number;
    }
  }
  return { width, height, data: turned };
}
