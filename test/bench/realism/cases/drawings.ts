import type { Picture } from '@semblance/engine-api/picture';
import { seeded } from '@semblance/testkit/sound/random';
import sharp from 'sharp';

const SIZE = 480;
const CRAYONS = ['#c22', '#27c', '#283', '#e90', '#724', '#111'] as const;

/** Draws a head as children do: a wobbly outline, dots or rings for eyes, a bow for a mouth. */
export async function childsDrawing(seed: number): Promise<Picture> {
  const random = seeded(seed);
  const between = (low: number, high: number): number => low + (high - low) * random();
  const crayon = (): string => CRAYONS[Math.floor(random() * CRAYONS.length)] as string;
  const wide = between(6, 12);
  const line = (points: readonly (readonly [number, number])[], colour: string, closed = false): string =>
    `<path d="M${points.map(([x, y]) => `${x + between(-4, 4)} ${y + between(-4, 4)}`).join('L')}${closed ? 'Z' : ''}" fill="none" stroke="${colour}" stroke-width="${wide}" stroke-linejoin="round" stroke-linecap="round"/>`;
  const arc = (x: number, y: number, rx: number, ry: number, from: number, to: number): [number, number][] =>
    Array.from({ length: 18 }, (_, k) => {
      const angle = from + ((to - from) * k) / 17;
      return [x + rx * Math.cos(angle), y + ry * Math.sin(angle)];
    });
  const around = 2 * Math.PI;
  const skin = random() < 0.5 ? `<ellipse cx="240" cy="250" rx="145" ry="165" fill="#f6c9a4"/>` : '';
  const parts = [line(arc(240, 250, between(130, 160), between(140, 180), 0, around), crayon(), true)];
  const eye = between(12, 22);
  const colour = crayon();
  for (const x of [185, 295])
    parts.push(
      `<circle cx="${x}" cy="210" r="${eye / 2}" fill="${colour}"/>`,
      line(arc(x, 210, eye, eye, 0, around), colour, true),
    );
  parts.push(
    line(
      [
        [240, 235],
        [228, 280],
        [248, 285],
      ],
      crayon(),
    ),
    line(arc(240, 300, between(50, 80), between(25, 55), 0.15 * Math.PI, 0.85 * Math.PI), crayon()),
  );
  const hair = crayon();
  for (let k = 0; k < 14; k++) {
    const x = 130 + 17 * k;
    parts.push(
      line(
        [
          [x, 140 - between(0, 40)],
          [x + between(-15, 15), 60 + between(0, 40)],
        ],
        hair,
      ),
    );
  }
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="${SIZE}" height="${SIZE}"><rect width="100%" height="100%" fill="#fcfaf4"/>${skin}${parts.join('')}</svg>`;
  const { data } = await sharp(Buffer.from(svg)).removeAlpha().raw().toBuffer({ resolveWithObject: true });
  return { width: SIZE, height: SIZE, channels: 3, data: new Uint8Array(data) };
}
