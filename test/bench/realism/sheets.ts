import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import sharp from 'sharp';
import type { Case } from './case.ts';

const CELL = 224;
const CAPTION = 26;
/** Cases side by side, and cases of one sheet. */
const ACROSS = 3;
const ON_A_SHEET = 36;

/** Writes cases in their order onto sheets `sheet-01.jpg` and so on: source, target and result under a caption. */
export async function writeSheets(cases: readonly Case[], directory: string): Promise<void> {
  for (let from = 0, n = 1; from < cases.length; from += ON_A_SHEET, n++) {
    const some = cases.slice(from, from + ON_A_SHEET);
    const rows = Math.ceil(some.length / ACROSS);
    const pieces = await Promise.all(
      some.flatMap((one, i) => {
        const left = (i % ACROSS) * CELL * 3;
        const top = Math.floor(i / ACROSS) * (CELL + CAPTION);
        const pictures = one.cells.map(async (input, k) => ({
          input,
          left: left + k * CELL,
          top: top + CAPTION,
        }));
        return [...pictures, caption(one).then((input) => ({ input, left, top }))];
      }),
    );
    const sheet = await sharp({
      create: {
        width: ACROSS * CELL * 3,
        height: rows * (CELL + CAPTION),
        channels: 3,
        background: '#202020',
      },
    })
      .composite(pieces)
      .jpeg({ quality: 90 })
      .toBuffer();
    await writeFile(join(directory, `sheet-${String(n).padStart(2, '0')}.jpg`), sheet);
  }
}

function caption({ kind, label, faults }: Case): Promise<Buffer> {
  const text = `${kind} · ${label} · ${faults.join(', ') || 'within all limits'}`.replace(
    /[<>&]/g,
    (c) => `&#${c.charCodeAt(0)};`,
  );
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="${CELL * 3}" height="${CAPTION}"><text x="6" y="18" font-family="sans-serif" font-size="14" fill="${faults.length > 0 ? '#ff9' : '#9f9'}">${text}</text></svg>`;
  return sharp(Buffer.from(svg)).png().toBuffer();
}
