import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type BenchContext, figure, type Row, type Section, unmeasuredRow } from '../lib/section.ts';
import { ROOT } from '../photo-swap/portraits.ts';
import { ANIMATED, animationCases } from './animation-cases.ts';
import type { Case } from './case.ts';
import { DEGRADATIONS, degrade } from './cases/degrade.ts';
import { childsDrawing } from './cases/drawings.ts';
import { EXPRESSIONS, expressionPairs } from './cases/expressions.ts';
import { film, MOTIONS, type MotionName } from './cases/motions.ts';
import { OCCLUDERS, occlude } from './cases/occlude.ts';
import { choosePairs, type Pair } from './cases/pairs.ts';
import { heldOut, type Portrait, readPortraits } from './cases/portrait.ts';
import { identityCases } from './identity-cases.ts';
import { type Judges, judgeNobody, judgeSwap, openJudges, type Swap } from './judged-case.ts';
import { judgeClip, MOST_FLICKER } from './judged-clip.ts';
import { likenessRows } from './likeness-rows.ts';
import { FLOORS } from './measures.ts';
import { writeSheets } from './sheets.ts';
import { withMedia } from './with-media.ts';

const SEED = 20;
/** Cases of each object in front, of each bad picture, of each expression and of each motion. */
const EACH = 8;
/** Portraits that replace the person in a clip. */
const PORTRAIT_CHARACTERS = 12;
/** Cases in which an object is in front of the source. */
const ON_SOURCE = 2;

/**
 * Swaps faces between portraits of a folder: with objects in front of either, in bad pictures, with expressions, and
 * in clips. Measures whether the results look real: skin, seams, sharpness, expression, what stands in front, and
 * flicker. Writes contact sheets, worst first.
 */
export async function runRealismBench({
  outDir,
  say,
}: Pick<BenchContext, 'outDir' | 'say'>): Promise<Section> {
  const title = 'Realism of swaps';
  const folder = process.env.SEMBLANCE_FACES ?? join(ROOT, '..', 'shared', 'faces');
  if (!existsSync(folder)) {
    const why = 'no portraits: SEMBLANCE_FACES must name a folder with p000.jpg and so on';
    return { title, rows: [unmeasuredRow('all', '', why)] };
  }
  const judges = await openJudges();
  const portraits = await readPortraits(folder, judges.finder);
  say(`${portraits.length} portraits`);
  const cases: Case[] = [];
  for await (const one of everyCase(portraits, judges, say)) {
    cases.push(one);
    if (one.faults.length > 0) say(`! ${one.kind}: ${one.label}: ${one.faults.join(', ')}`);
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

/** Beginnings of the kinds of cases that run, for people who work on some of them; undefined: all run. */
const wanted = process.env.SEMBLANCE_REALISM_KINDS?.split(',');
const isWanted = (kind: string): boolean => wanted?.some((start) => kind.startsWith(start)) ?? true;

async function* everyCase(
  portraits: readonly Portrait[],
  judges: Judges,
  say: (line: string) => void,
): AsyncGenerator<Case> {
  const label = ({ source, target }: Pair<Portrait>): string => `${source.label} > ${target.label}`;
  const judged = (
    kind: string,
    pair: Pair<Portrait>,
    changed: Partial<Pick<Swap, 'source' | 'target' | 'occluder' | 'bareSource'>> = {},
  ): Promise<Case> => {
    const [source, target] = [pair.source.picture, pair.target.picture];
    return judgeSwap({ kind, label: label(pair), source, target, ...changed }, judges);
  };
  for (const pair of choosePairs(portraits, portraits.length, SEED))
    if (isWanted('portraits')) yield judged('portraits', pair);
  // The network that finds covers was trained on the others.
  const unknown = portraits.filter(heldOut);
  const covered = choosePairs(unknown, EACH * OCCLUDERS.length, SEED + 1);
  for (const [k, name] of OCCLUDERS.entries()) {
    for (const [n, pair] of covered.slice(k * EACH, (k + 1) * EACH).entries()) {
      if (!isWanted(name)) break;
      const { picture, mask } = await occlude(name, pair.target.picture, pair.target.face, SEED + n);
      yield judged(name, pair, { target: picture, occluder: mask });
    }
    for (const [n, pair] of covered.slice(k * EACH, k * EACH + ON_SOURCE).entries()) {
      if (!isWanted(`source: ${name}`)) break;
      const { picture } = await occlude(name, pair.source.picture, pair.source.face, SEED + n);
      yield judged(`source: ${name}`, pair, { source: picture, bareSource: pair.source.picture });
    }
  }
  const others = choosePairs(portraits, EACH * DEGRADATIONS.length, SEED + 1);
  for (const [k, name] of DEGRADATIONS.entries()) {
    if (!isWanted(name)) continue;
    for (const [n, pair] of others.slice(k * EACH, (k + 1) * EACH).entries())
      yield judged(name, pair, {
        target: await degrade(name, pair.target.picture, pair.target.face, SEED + n),
      });
  }
  for (let n = 0; n < EACH && isWanted('drawing'); n++) {
    const target = await childsDrawing(SEED + n);
    yield judgeNobody({ kind: 'drawing by a child', label: String(n), target }, judges);
  }
  for (const name of EXPRESSIONS) {
    if (!isWanted(name)) continue;
    for (const pair of await expressionPairs(name, portraits, { count: EACH, seed: SEED + 2 }))
      yield judged(name, pair, { source: pair.sourcePicture, target: pair.targetPicture });
  }
  if (isWanted('identity')) {
    const characters = choosePairs(unknown, PORTRAIT_CHARACTERS, SEED + 4).map(({ source }) => source);
    yield* identityCases(characters, judges, say);
  }
  const animated = ANIMATED.filter(isWanted);
  if (animated.length > 0)
    yield* animationCases(animated, { portraits: unknown, seed: SEED + 5 }, judges, say);
  yield* everyClip(choosePairs(unknown, EACH * MOTIONS.length, SEED + 3), judges, say);
}

async function* everyClip(
  pairs: readonly Pair<Portrait>[],
  judges: Judges,
  say: (line: string) => void,
): AsyncGenerator<Case> {
  yield* withMedia(say, async function* (media, folder) {
    for (const [k, { source, target }] of pairs.entries()) {
      const kind = MOTIONS[k % MOTIONS.length] as MotionName;
      if (!isWanted(kind)) continue;
      const label = `${source.label} > ${target.label}`;
      const scenes = await film(kind, target);
      const clip = { kind, label, source: source.picture, scenes };
      yield judgeClip(clip, judges, media, join(folder, String(k)));
    }
  });
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
  const means = (Object.keys(FLOORS) as (keyof typeof FLOORS)[])
    .filter((name) => name !== 'kept' && name !== 'stained')
    .map((name) =>
      row(`portraits: mean ${name}`, figure(mean(({ measures }) => measures?.[name])), limits(name)),
    );
  return [
    row('cases', String(cases.length), '≥ 500', cases.length >= 500 ? 'met' : 'not met'),
    ...byKind,
    ...means,
    ...clipRows(cases),
    ...likenessRows(cases),
  ];
}

function clipRows(cases: readonly Case[]): Row[] {
  const all = cases.flatMap(({ flicker }) => flicker ?? []);
  if (all.length === 0) return [];
  const mean = all.reduce((sum, value) => sum + value, 0) / all.length;
  const row = { peer: '', ratio: '', met: '' as const };
  return [
    { ...row, name: 'clips: mean flicker', ours: figure(mean), goal: `each ≤ ${MOST_FLICKER}` },
    { ...row, name: 'clips: largest flicker', ours: figure(Math.max(...all)), goal: '' },
  ];
}

function limits(name: keyof typeof FLOORS): string {
  const [low, high] = FLOORS[name];
  return low > 0 ? `each ${low} to ${high}` : `each ≤ ${high}`;
}

function notes(portraits: number): string[] {
  return [
    `${portraits} portraits in the public domain, which are not part of this repository; each is once the source and once the target.`,
    'tone: Lab distance of the cheeks before and after; patch: largest change of skin beside a feature against the cheeks; texture and sharpness: edges after to before, on the cheeks and on eyes, brows and lips; seam: levels per pixel; drift: outline, % of the eye distance; mouth, eyes: openings, shares of it; teeth: their area, after to before; kept: pixels of an object in front that stay; stained: share of the face where an object in front of the source shows; landmarks: rise of the distance between the mesh and the landmarks of another detector, % of the face width; flicker: how much more a region’s colour steps between frames than in the clip, Lab.',
    'identity: a portrait replaces the person of a clip, by the whole of Identity Swap; its measures are those of identity-measures.ts.',
    'animated: a portrait is driven by a clip or speaks a sentence, by the whole of Motion Transfer and Avatar; their measures are those of animation-measures.ts.',
    'Likeness is no goal of its own: a real face that resembles the source is.',
  ];
}
