/**
 * The number of a picture, drawn into its corner as black and white cells. It identifies a picture that comes back,
 * because the service may drop pictures without saying so. Cells have the size of a JPEG block, in which black and
 * white stay distinct.
 */

const CELL = 8;
const BITS = 12;
/** White and black, which show that the corner contains a number, then the bits, then their parity. */
const CELLS = 2 + BITS + 1;

/** Numbers start again after this many. */
export const NUMBERS = 2 ** BITS;

/** @param {number} number @returns {number[]} */
function cellsOf(number) {
  const bits = Array.from({ length: BITS }, (_, i) => (number >> i) & 1);
  return [1, 0, ...bits, bits.filter(Boolean).length % 2];
}

/** @param {CanvasRenderingContext2D} context @param {number} number below {@link NUMBERS} */
export function drawNumber(context, number) {
  const top = context.canvas.height - CELL;
  cellsOf(number).forEach((bit, i) => {
    context.fillStyle = bit ? '#fff' : '#000';
    context.fillRect(i * CELL, top, CELL, CELL);
  });
}

/**
 * @param {CanvasRenderingContext2D} context
 * @returns {number | undefined} undefined when no number can be read
 */
export function readNumber(context) {
  const top = context.canvas.height - CELL;
  const { data } = context.getImageData(0, top + CELL / 2, CELLS * CELL, 1);
  const cells = Array.from({ length: CELLS }, (_, i) => {
    const at = (i * CELL + CELL / 2) * 4;
    return (data[at] ?? 0) + (data[at + 1] ?? 0) + (data[at + 2] ?? 0) > 384 ? 1 : 0;
  });
  let number = 0;
  for (let i = 0; i < BITS; i++) number += (cells[2 + i] ?? 0) << i;
  return cellsOf(number).every((bit, i) => bit === cells[i]) ? number : undefined;
}
