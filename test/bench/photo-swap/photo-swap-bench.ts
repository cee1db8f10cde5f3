import { mkdir } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { basename, dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import sharp from 'sharp';
import { prepareSource } from '../../../gpu-agent/engines/builtin/swap/source-face.ts';
import { swapFace } from '../../../gpu-agent/engines/builtin/swap/swap-face.ts';
import { FaceFinder, yaw } from '../../../gpu-agent/engines/builtin/vision/face-finder.ts';
import type { Face } from '../../../gpu-agent/engines/builtin/vision/face-mesh.ts';
import type { Picture } from '../../../gpu-agent/engines/builtin/vision/picture.ts';
import { openSession } from '../../../gpu-agent/engines/models/session.ts';
import { cosine, distance, dlibJudge, faceresJudge } from './judge.ts';
import { apertures, changedOutside, landmarkDrift, seamExcess } from './measures.ts';
import { stageTimes } from './stage-times.ts';

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

export interface PhotoSwapBenchOptions {
  readonly log?: (line: string) => void;
  /** Where the contact sheet goes; default `bench-out` in the repository. */
  readonly outputDir?: string;
  /** Measure only this many pairs, spread over all. */
  readonly limit?: number;
  /** Measure quality only. */
  readonly skipTimes?: boolean;
}

interface Entry {
  readonly label: string;
  readonly picture: Picture;
  readonly face: Face;
  readonly dlib: Float32Array;
  readonly faceres: Float32Array;
}

interface Pair {
  readonly label: string;
  readonly dlibBefore: number;
  readonly dlibAfter: number;
  readonly dlibToTarget: number;
  readonly gain: number;
  readonly toSource: number;
  readonly seam: number;
  readonly outside: number;
  readonly drift: number;
  readonly mouth: number;
  readonly eyes: number;
}

const ROOT = join(import.meta.dirname, '..', '..', '..');
/** Two faces nearer than this are taken for one person's and not swapped (dlib's own threshold is 0.6). */
const SAME_PERSON = 0.42;
const CELL = 224;

/**
 * Swaps faces between the shipped portraits and the demo photographs of `@vladmandic/face-api`, measures each result
 * and lays all of them out on a contact sheet (source, base, result).
 */
export async function runPhotoSwapBench(options: PhotoSwapBenchOptions = {}): Promise<BenchRow[]> {
  const log = options.log ?? (() => undefined);
  const [blazeface, facemesh, dlib, faceres] = await Promise.all([
    openSession('blazeface'),
    openSession('facemesh'),
    dlibJudge(),
    faceresJudge(),
  ]);
  const finder = new FaceFinder({ blazeface, facemesh });
  const entries: Entry[] = [];
  for (const file of pictureFiles()) {
    const picture = await readRgb(file);
    const faces = await finder.find(picture, () => undefined);
    faces.sort((a, b) => (a.points[12] as number) - (b.points[12] as number));
    for (const [index, face] of faces.entries()) {
      entries.push({
        label: `${basename(file).replace(/\.\w+$/, '')}#${index}`,
        picture,
        face,
        dlib: await dlib.describe(picture, face),
        faceres: await faceres.describe(picture, face),
      });
    }
  }
  const { frontal, hard } = choosePairs(entries);
  const graded = spread(frontal, options.limit);
  const chosen = [...graded, ...spread(hard, options.limit)];
  log(
    `${entries.length} faces, ${graded.length} near-frontal pairs, ${chosen.length - graded.length} harder ones`,
  );
  const pairs: Pair[] = [];
  const cells: Buffer[] = [];
  for (const [source, target] of chosen) {
    const result: Picture = { ...target.picture, data: target.picture.data.slice() };
    swapFace(result, target.face, prepareSource(source.picture, source.face, target.face.width));
    const refitted = await finder.refit(result, target.face);
    const after = await dlib.describe(result, target.face);
    const afterFaceres = await faceres.describe(result, target.face);
    const before = apertures(target.face);
    const now = apertures(refitted);
    const pair: Pair = {
      label: `${source.label} > ${target.label}`,
      dlibBefore: distance(target.dlib, source.dlib),
      dlibAfter: distance(after, source.dlib),
      dlibToTarget: distance(after, target.dlib),
      gain: cosine(afterFaceres, source.faceres) - cosine(target.faceres, source.faceres),
      toSource: cosine(afterFaceres, source.faceres),
      seam: seamExcess(target.picture, result, target.face),
      outside: changedOutside(target.picture, result, target.face),
      drift: landmarkDrift(target.face, refitted),
      mouth: Math.abs(now.mouth - before.mouth),
      eyes: Math.abs(now.eyes - before.eyes),
    };
    pairs.push(pair);
    log(
      `${pair.dlibAfter < pair.dlibToTarget ? ' ' : '!'} ${pair.label.padEnd(34)} 128-d to source ` +
        `${pair.dlibBefore.toFixed(2)} -> ${pair.dlibAfter.toFixed(2)}, to target ${pair.dlibToTarget.toFixed(2)}; ` +
        `cosine ${pair.toSource.toFixed(2)} (${pair.gain >= 0 ? '+' : ''}${pair.gain.toFixed(2)}); seam ${pair.seam.toFixed(2)}; ` +
        `drift ${pair.drift.toFixed(1)} %; mouth ${pair.mouth.toFixed(3)}`,
    );
    cells.push(await cell(source.picture, source.face), await cell(target.picture, target.face));
    cells.push(await cell(result, target.face));
  }
  const sheet = await contactSheet(cells, options.outputDir ?? join(ROOT, 'bench-out'));
  log(`contact sheet: ${sheet}`);
  const times = options.skipTimes ? [] : await stageTimes(finder, log);
  const gradedPairs = pairs.slice(0, graded.length);
  const hardPairs = pairs.slice(graded.length);
  return [...qualityRows(gradedPairs, pairs), ...hardRows(hardPairs), ...times];
}

function qualityRows(pairs: readonly Pair[], all: readonly Pair[]): BenchRow[] {
  const mean = (pick: (pair: Pair) => number): number =>
    pairs.reduce((sum, p) => sum + pick(p), 0) / pairs.length;
  const round = (value: number, digits: number): number => Number(value.toFixed(digits));
  const closer = (100 * pairs.filter((p) => p.dlibAfter < p.dlibToTarget).length) / pairs.length;
  // The recogniser's makers take two faces nearer than 0.6 for one person's.
  const apart = pairs.filter((p) => p.dlibBefore >= 0.6);
  const gain = mean((p) => p.gain);
  const outside = all.reduce((sum, p) => sum + p.outside, 0);
  const seam = mean((p) => p.seam);
  const drift = mean((p) => p.drift);
  return [
    { name: 'pairs', ours: pairs.length, goal: '>= 60', met: pairs.length >= 60, unit: '' },
    {
      name: 'closer to the source than to the target (128-d)',
      ours: round(closer, 1),
      goal: '>= 95',
      met: closer >= 95,
      unit: '%',
    },
    {
      name: 'the same, of pairs that the judge tells apart (>= 0.6 before)',
      ours: round((100 * apart.filter((p) => p.dlibAfter < p.dlibToTarget).length) / apart.length, 1),
      unit: `% of ${apart.length}`,
    },
    {
      name: 'the same, near-frontal and harder pairs together',
      ours: round((100 * all.filter((p) => p.dlibAfter < p.dlibToTarget).length) / all.length, 1),
      unit: `% of ${all.length}`,
    },
    {
      name: '128-d distance to the source before',
      ours: round(
        mean((p) => p.dlibBefore),
        3,
      ),
      unit: '',
    },
    {
      name: '128-d distance to the source after',
      ours: round(
        mean((p) => p.dlibAfter),
        3,
      ),
      unit: '',
    },
    {
      name: '128-d distance to the target after',
      ours: round(
        mean((p) => p.dlibToTarget),
        3,
      ),
      unit: '',
    },
    {
      name: 'cosine to the source after (1024-d)',
      ours: round(
        mean((p) => p.toSource),
        3,
      ),
      unit: '',
    },
    {
      name: 'cosine gain towards the source (1024-d)',
      ours: round(gain, 3),
      goal: '>= 0.25',
      met: gain >= 0.25,
      unit: '',
    },
    {
      name: 'pixels changed outside the face, all pairs',
      ours: outside,
      goal: '0',
      met: outside === 0,
      unit: 'pixels',
    },
    {
      name: 'seam: gradient added at the edge',
      ours: round(seam, 2),
      goal: '<= 1.5',
      met: seam <= 1.5,
      unit: 'levels/pixel',
    },
    {
      name: 'landmark drift (outline, pose)',
      ours: round(drift, 2),
      goal: '<= 4',
      met: drift <= 4,
      unit: '% of eye distance',
    },
    {
      name: 'change of mouth opening',
      ours: round(
        mean((p) => p.mouth),
        3,
      ),
      unit: 'of eye distance',
    },
    {
      name: 'change of eye opening',
      ours: round(
        mean((p) => p.eyes),
        3,
      ),
      unit: 'of eye distance',
    },
  ];
}

/** Figures without a goal for faces that are turned, laugh aloud, or are small. */
function hardRows(pairs: readonly Pair[]): BenchRow[] {
  if (pairs.length === 0) return [];
  const closer = pairs.filter((p) => p.dlibAfter < p.dlibToTarget).length / pairs.length;
  const gain = pairs.reduce((sum, p) => sum + p.gain, 0) / pairs.length;
  return [
    { name: 'harder pairs', ours: pairs.length, unit: '' },
    {
      name: 'harder pairs: closer to the source (128-d)',
      ours: Number((100 * closer).toFixed(1)),
      unit: '%',
    },
    { name: 'harder pairs: cosine gain (1024-d)', ours: Number(gain.toFixed(3)), unit: '' },
  ];
}

export function pictureFiles(): string[] {
  const media = ['astronaut.png', 'einstein.jpg', 'grace_hopper.jpg'].map((name) =>
    join(ROOT, 'media', name),
  );
  const demo = join(dirname(createRequire(import.meta.url).resolve('@vladmandic/face-api')), '..', 'demo');
  return [...media, ...[1, 2, 3, 4, 5, 6].map((n) => join(demo, `sample${n}.jpg`))];
}

export async function readRgb(file: string): Promise<Picture> {
  const { data, info } = await sharp(file)
    .toColourspace('srgb')
    .removeAlpha()
    .raw()
    .toBuffer({ resolveWithObject: true });
  return { width: info.width, height: info.height, channels: 3, data: new Uint8Array(data) };
}

/** Faces turned less than this are near-frontal: the goals hold for swaps between them. */
const FRONTAL = (17 * Math.PI) / 180;
/** Turned further than this there is no whole face to see. */
const TURNED = (35 * Math.PI) / 180;

/**
 * For each face several others as sources, all different people by the judge; always the same ones. Near-frontal
 * faces are paired with each other, all others with any: the second group says what becomes of harder pictures.
 */
function choosePairs(entries: readonly Entry[]): { frontal: [Entry, Entry][]; hard: [Entry, Entry][] } {
  const turn = (entry: Entry): number => Math.abs(yaw(entry.face));
  // Einstein's face is 87 pixels wide, laughing and looks up: a portrait, but not one seen from the front.
  const isFrontal = (entry: Entry): boolean => turn(entry) < FRONTAL && entry.face.score > 0.9;
  const frontal = entries.filter(isFrontal);
  const pick = (targets: readonly Entry[], sources: readonly Entry[], each: number): [Entry, Entry][] =>
    targets.flatMap((target, t) => {
      const others = sources.map((_, step) => sources[(t + 1 + step * 5) % sources.length] as Entry);
      const fitting = others.filter(
        (source) => source !== target && distance(source.dlib, target.dlib) >= SAME_PERSON,
      );
      return [...new Set(fitting)].slice(0, each).map((source): [Entry, Entry] => [source, target]);
    });
  const turned = entries.filter((entry) => !isFrontal(entry) && turn(entry) < TURNED);
  return {
    frontal: pick(frontal, frontal, 6),
    hard: [...pick(turned, frontal, 1), ...pick(frontal, turned, 1)],
  };
}

function spread<T>(all: readonly T[], limit: number | undefined): T[] {
  if (limit === undefined || limit >= all.length) return [...all];
  return Array.from({ length: limit }, (_, i) => all[Math.floor((i * all.length) / limit)] as T);
}

async function cell(picture: Picture, face: Face): Promise<Buffer> {
  const side = Math.round(face.width * 1.9);
  const left = Math.round((face.points[4 * 3] as number) - side / 2);
  const top = Math.round((face.points[4 * 3 + 1] as number) - side * 0.55);
  const x = Math.max(0, left);
  const y = Math.max(0, top);
  return sharp(picture.data, { raw: { width: picture.width, height: picture.height, channels: 3 } })
    .extract({
      left: x,
      top: y,
      width: Math.min(picture.width, left + side) - x,
      height: Math.min(picture.height, top + side) - y,
    })
    .resize(CELL, CELL, { fit: 'contain', kernel: 'lanczos3' })
    .png()
    .toBuffer();
}

async function contactSheet(cells: readonly Buffer[], directory: string): Promise<string> {
  await mkdir(directory, { recursive: true });
  const perRow = 9;
  const rows = Math.ceil(cells.length / perRow);
  const path = join(directory, 'photo-swap-contact-sheet.png');
  await sharp({ create: { width: perRow * CELL, height: rows * CELL, channels: 3, background: '#202020' } })
    .composite(
      cells.map((input, i) => ({ input, left: (i % perRow) * CELL, top: Math.floor(i / perRow) * CELL })),
    )
    .png()
    .toFile(path);
  return pathToFileURL(path).pathname;
}
