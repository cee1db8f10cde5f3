import { join } from 'node:path';
import type { Picture } from '@semblance/engine-api/picture';
import { prepareSource } from '@semblance/engine-builtin/swap/source-face';
import { swapFace } from '@semblance/engine-builtin/swap/swap-face';
import { cosine, distance, dlibJudge, faceresJudge } from '@semblance/testkit/quality/judge';
import { apertures, changedOutside, landmarkDrift, seamExcess } from '@semblance/testkit/quality/measures';
import { FaceFinder } from '@semblance/vision/face-finder';
import { openSession } from '@semblance/vision/models/session';
import { movedAlone } from '../realism/drawn-swap.ts';
import type { BenchRow } from './bench-row.ts';
import { cell, contactSheet } from './contact-sheet.ts';
import { choosePairs, loadEntries, ROOT } from './portraits.ts';
import { type Pair, qualityRows } from './quality-rows.ts';
import { stageTimes } from './stage-times.ts';

export interface PhotoSwapBenchOptions {
  readonly log?: (line: string) => void;
  /** Folder for the contact sheet. Default: `bench-out` in the repository. */
  readonly outputDir?: string;
  /** Number of pairs to measure, spread over all. Default: all. */
  readonly limit?: number;
  /** Whether to measure quality only. */
  readonly skipTimes?: boolean;
}

/**
 * Swaps faces between the shipped portraits and the demo photographs of `@vladmandic/face-api`. Measures each
 * result, and puts all of them on a contact sheet (source, base, result).
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
  const entries = await loadEntries(finder, { dlib, faceres });
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
    const prepared = prepareSource(source.picture, source.face, target.face.width);
    swapFace(result, target.face, prepared);
    const { moved } = movedAlone(target, prepared, undefined);
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
      seam: seamExcess(moved, result, target.face),
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
  const times = options.skipTimes ? [] : await stageTimes();
  return [...qualityRows(pairs, graded.length), ...times];
}

function spread<T>(all: readonly T[], limit: number | undefined): T[] {
  if (limit === undefined || limit >= all.length) return [...all];
  return Array.from({ length: limit }, (_, i) => all[Math.floor((i * all.length) / limit)] as T);
}
