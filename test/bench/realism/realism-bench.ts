import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Picture } from '@semblance/engine-api/picture';
import { prepareSource } from '@semblance/engine-builtin/swap/source-face';
import { swapFace } from '@semblance/engine-builtin/swap/swap-face';
import { distance, dlibJudge } from '@semblance/testkit/quality/judge';
import { FaceFinder } from '@semblance/vision/face-finder';
import { cropsOf, type Face } from '@semblance/vision/face-mesh';
import { openSession } from '@semblance/vision/models/session';
import type { Plane } from '@semblance/vision/plane/plane';
import { type BenchContext, figure, type Row, type Section, unmeasuredRow } from '../lib/section.ts';
import { cell } from '../photo-swap/contact-sheet.ts';
import { ROOT } from '../photo-swap/portraits.ts';
import type { Case } from './case.ts';
import { DEGRADATIONS, degrade } from './cases/degrade.ts';
import { OCCLUDERS, occlude } from './cases/occlude.ts';
import { choosePairs, type Pair } from './cases/pairs.ts';
import { heldOut, type Portrait, readPortraits } from './cases/portrait.ts';
import { FLOORS, failures, measure } from './measures.ts';
import { writeSheets } from './sheets.ts';

const SEED = 20;
/** Cases of each object in front, and of each bad picture. */
const EACH = 8;

/**
 * Swaps faces between portraits of a folder, with objects in front of them and in bad pictures, and measures
 * whether the results look real: skin, seams, sharpness, expression, and what stands in front. Writes contact
 * sheets, worst first.
 */
export async function runRealismBench({
  outDir,
  say,
}: Pick<BenchContext, 'outDir' | 'say'>): Promise<Section> {
  const title = 'Realism of Photo Swap';
  const folder = process.env.SEMBLANCE_FACES ?? join(ROOT, '..', 'shared', 'faces');
  if (!existsSync(folder)) {
    const why = 'no portraits: SEMBLANCE_FACES must name a folder with p000.jpg and so on';
    return { title, rows: [unmeasuredRow('all', '', why)] };
  }
  const [blazeface, facemesh, face_cover, judge] = await Promise.all([
    openSession('blazeface'),
    openSession('facemesh'),
    openSession('face_cover'),
    dlibJudge(),
  ]);
  const finder = new FaceFinder({ blazeface, facemesh, face_cover });
  const portraits = await readPortraits(folder, finder);
  say(`${portraits.length} portraits`);
  const cases: Case[] = [];
  const add = async (
    kind: string,
    pair: Pair<Portrait>,
    target: Picture,
    occluder?: Plane,
  ): Promise<void> => {
    const made = await runCase({ kind, pair, target, occluder }, { finder, judge });
    cases.push(made);
    if (made.faults.length > 0) say(`! ${made.kind}: ${made.label}: ${made.faults.join(', ')}`);
  };
  for (const pair of choosePairs(portraits, portraits.length, SEED))
    await add('portraits', pair, pair.target.picture);
  // The network that finds covers was trained on the others.
  const unknown = choosePairs(portraits.filter(heldOut), EACH * OCCLUDERS.length, SEED + 1);
  for (const [k, name] of OCCLUDERS.entries()) {
    for (const [n, pair] of unknown.slice(k * EACH, (k + 1) * EACH).entries()) {
      const { picture, mask } = await occlude(name, pair.target.picture, pair.target.face, SEED + n);
      await add(name, pair, picture, mask);
    }
  }
  const others = choosePairs(portraits, EACH * DEGRADATIONS.length, SEED + 1);
  for (const [k, name] of DEGRADATIONS.entries()) {
    for (const [n, pair] of others.slice(k * EACH, (k + 1) * EACH).entries())
      await add(name, pair, await degrade(name, pair.target.picture, pair.target.face, SEED + n));
  }
  const directory = join(outDir, 'realism');
  await mkdir(directory, { recursive: true });
  const ordered = cases.toSorted((a, b) => b.worst - a.worst);
  await writeSheets(ordered, directory);
  const named = ordered.filter(({ worst }) => worst > 0);
  await writeFile(
    join(directory, 'below-floor.txt'),
    named.map(({ kind, label, faults }) => `${kind}: ${label}: ${faults.join(', ')}\n`).join(''),
  );
  say(`contact sheets, worst first: ${directory}`);
  return { title, rows: rowsOf(cases), notes: notes(portraits.length) };
}

async function runCase(
  work: { kind: string; pair: Pair<Portrait>; target: Picture; occluder: Plane | undefined },
  tools: { finder: FaceFinder; judge: Awaited<ReturnType<typeof dlibJudge>> },
): Promise<Case> {
  const { kind, pair, target, occluder } = work;
  const { source } = pair;
  const label = `${source.label} > ${pair.target.label}`;
  const [face] = await tools.finder.find(target, () => undefined);
  const base = { label, kind };
  if (!face) {
    // An object that covers most of a face may hide it; then nothing is painted, and nothing is charged.
    const hidden = occluder !== undefined;
    const faults = hidden ? [] : ['no face found in the target'];
    const cells = [await cell(source.picture, source.face), await cell(target, pair.target.face)];
    return { ...base, measures: undefined, likeness: undefined, worst: hidden ? 0 : 1, faults, cells };
  }
  const after: Picture = { ...target, data: target.data.slice() };
  const cover = await tools.finder.coverOf(cropsOf(target), face);
  swapFace(after, face, prepareSource(source.picture, source.face, face.width), { cover });
  const found: Face = await tools.finder.refit(after, face);
  const measures = measure({ before: target, after }, { before: face, after: found }, occluder);
  const outside = failures(measures);
  const likeness = distance(
    await tools.judge.describe(after, face),
    await tools.judge.describe(source.picture, source.face),
  );
  return {
    ...base,
    measures,
    likeness,
    worst: outside[0]?.by ?? 0,
    faults: outside.map(({ name }) => {
      const value = figure(measures[name] as number);
      return `${name} ${value}${name === 'patch' ? ` (${measures.patchAt})` : ''}`;
    }),
    cells: [await cell(source.picture, source.face), await cell(target, face), await cell(after, face)],
  };
}

function rowsOf(cases: readonly Case[]): Row[] {
  const kinds = [...new Set(cases.map(({ kind }) => kind))];
  const row = (name: string, ours: string, goal = '', met: Row['met'] = ''): Row => ({
    name,
    ours,
    peer: '',
    ratio: '',
    goal,
    met,
  });
  const byKind = kinds.map((kind) => {
    const all = cases.filter((each) => each.kind === kind);
    const good = all.filter(({ worst }) => worst === 0).length;
    return row(
      `${kind}: within all limits`,
      `${good} of ${all.length}`,
      'all',
      good === all.length ? 'met' : 'not met',
    );
  });
  const portraits = cases.filter(({ kind }) => kind === 'portraits');
  const mean = (pick: (one: Case) => number | undefined): number => {
    const values = portraits.map(pick).filter((value) => value !== undefined);
    return values.reduce((sum, value) => sum + value, 0) / values.length;
  };
  const likeness = mean((one) => one.likeness);
  const means = (Object.keys(FLOORS) as (keyof typeof FLOORS)[])
    .filter((name) => name !== 'kept')
    .map((name) =>
      row(`portraits: mean ${name}`, figure(mean(({ measures }) => measures?.[name])), limits(name)),
    );
  return [
    row('cases', String(cases.length), '≥ 500', cases.length >= 500 ? 'met' : 'not met'),
    ...byKind,
    ...means,
    row(
      'portraits: 128-d distance to the source',
      figure(likeness),
      '≤ 0.55',
      likeness <= 0.55 ? 'met' : 'not met',
    ),
  ];
}

function limits(name: keyof typeof FLOORS): string {
  const [low, high] = FLOORS[name];
  return low > 0 ? `each ${low} to ${high}` : `each ≤ ${high}`;
}

function notes(portraits: number): string[] {
  return [
    `${portraits} portraits in the public domain, which are not part of this repository; each is once the source and once the target.`,
    'tone: Lab distance of the cheeks before and after; patch: largest change of skin beside a feature against the cheeks; texture and sharpness: edges after to before, on the cheeks and on eyes, brows and lips; seam: levels per pixel; drift: outline, % of the eye distance; mouth, eyes: openings, shares of it; kept: pixels of an object in front that stay.',
    'Likeness is no goal of its own: a real face that resembles the source is.',
  ];
}
