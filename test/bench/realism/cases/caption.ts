import { pick, seeded } from '@semblance/testkit/sound/random';
import sharp from 'sharp';
import { linear } from './colour.ts';
import { composite, type Occluded, type Scene } from './composite.ts';
import { emptyLayer, type Grid } from './layer.ts';

const LINES = [
  ['LIVE', 'City council votes on new bridge'],
  ['NEWS', 'Harbour reopens after the storm'],
  ['ELECTION', 'First results expected at nine'],
  ['WEATHER', 'Frost in the valleys, sun by noon'],
  ['INTERVIEW', 'We had never seen it so clearly'],
] as const;
const COLOURS = [
  ['#b3121d', '#10131a'],
  ['#0b4ea2', '#f2f2f2'],
  ['#e6b800', '#1b1b1b'],
  ['#14532d', '#0f172a'],
] as const;

/** Draws a text bar of a broadcast over the chin. It is level and crisp, as graphics are that a studio adds. */
export async function drawCaption(scene: Scene): Promise<Occluded> {
  const { picture, head } = scene;
  const random = seeded(scene.seed);
  const [label, line] = pick(random, LINES);
  const [accent, ground] = pick(random, COLOURS);
  const ink = ground === '#f2f2f2' ? '#14171c' : '#ffffff';
  const size = 0.13 * head.width * (0.9 + 0.4 * random());
  const middle = head.toPicture(head.point(random() < 0.5 ? 17 : 199))[1];
  const top = Math.round(middle - size * 0.9);
  const opacity = 0.88 + 0.12 * random();
  const chip = size * (0.83 * label.length + 1.2);
  const left = Math.round(Math.max(0, head.toPicture([-0.75 - 0.5 * random(), 0, 0])[0]));
  const { width, height } = picture;
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}">
    <defs><linearGradient id="g" x1="0" y1="0" x2="0" y2="1">
      <stop offset="0" stop-color="#fff" stop-opacity=".16"/><stop offset=".5" stop-color="#fff" stop-opacity="0"/>
      <stop offset="1" stop-color="#000" stop-opacity=".2"/></linearGradient></defs>
    <rect x="${left}" y="${top}" width="${width - left}" height="${size * 2}" fill="${ground}" fill-opacity="${opacity}"/>
    <rect x="${left}" y="${top}" width="${chip}" height="${size * 2}" fill="${accent}"/>
    <rect x="${left}" y="${top}" width="${width - left}" height="${size * 2}" fill="url(#g)"/>
    <g font-family="sans-serif" font-size="${size * 1.05}">
      <text x="${left + size * 0.6}" y="${top + size * 1.38}" font-weight="bold" fill="${accent === '#e6b800' ? '#1b1b1b' : '#ffffff'}">${label}</text>
      <text x="${left + chip + size * 0.6}" y="${top + size * 1.38}" fill="${ink}">${line}</text>
    </g></svg>`;
  const { data } = await sharp(Buffer.from(svg)).ensureAlpha().raw().toBuffer({ resolveWithObject: true });
  const grid: Grid = { left: 0, top: 0, step: 1, width, height };
  const layer = emptyLayer(grid);
  for (let i = 0; i < layer.alpha.length; i++) {
    const a = (data[i * 4 + 3] as number) / 255;
    layer.alpha[i] = a;
    for (let c = 0; c < 3; c++) layer.light[i * 3 + c] = linear(data[i * 4 + c] as number) * a;
  }
  layer.shade = 0;
  return composite(scene, layer, true);
}
