import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { RenderError } from '@semblance/engine-api/engine';
import type { Picture } from '@semblance/engine-api/picture';
import { transferMotion } from '@semblance/engine-builtin/motion-transfer/motion-transfer';
import type { Media } from '@semblance/media/types';
import type { Face } from '@semblance/vision/face-mesh';
import { animationVerdict } from './animation-measures.ts';
import { apart } from './apart.ts';
import type { Case } from './case.ts';
import { actAt, CUT, DRIVER_RATE, type DriverName, driverClip } from './cases/driver.ts';
import type { Still } from './cases/stills.ts';
import { type AnimationJudges, cellsOf, judgeAnimation, writeStill } from './judged-animation.ts';
import { framesOf, meshes } from './judged-clip.ts';

/** A driver, whole and cut. */
export interface Driver {
  readonly whole: string;
  readonly cut: string;
  readonly frames: readonly Picture[];
  readonly faces: readonly Face[];
}

/** Writes a driver into a folder, whole and cut to begin in a smile with an open mouth. */
export async function prepareDriver(
  name: DriverName,
  judges: AnimationJudges,
  media: Media,
  folder: string,
): Promise<Driver> {
  const [whole, cut] = [join(folder, `${name}.mp4`), join(folder, `${name}-cut.mp4`)];
  await driverClip(media, judges.finder, { name, from: 0, path: whole });
  await driverClip(media, judges.finder, { name, from: CUT, path: cut });
  const frames = await framesOf(media, whole);
  return { whole, cut, frames, faces: await meshes(frames, [], judges) };
}

/** Moves a still by a driver by the whole of Motion Transfer, and measures it. */
export async function judgeMotion(
  still: Still,
  driver: Driver,
  judges: AnimationJudges,
  media: Media,
  folder: string,
): Promise<Case> {
  const name = `${still.label} (${still.kind})`;
  const place = { kind: 'animated: motion', measures: undefined, likeness: undefined };
  const image = await writeStill(still, folder);
  const nothing = () => undefined;
  const { signal } = new AbortController();
  const tools = { finder: judges.finder, signal, checkpoint: nothing, onProgress: nothing };
  const moved = async (clip: string, kind: string): Promise<Picture[]> => {
    const outputDir = join(folder, kind);
    await mkdir(outputDir, { recursive: true });
    const { outputPath } = await transferMotion({ image, driver: clip, outputDir }, media, tools);
    return framesOf(media, outputPath);
  };
  try {
    const [frames, cut] = [await moved(driver.whole, 'whole'), await moved(driver.cut, 'cut')];
    const animation = { still: still.picture, frames, driver, closed: isClosed };
    const judged = await judgeAnimation(animation, judges);
    const other = { frames: cut, faces: await meshes(cut, [], judges) };
    const { points, pixels, at: cutAt } = apart({ frames, faces: judged.faces }, other, CUT);
    const { names, ...verdict } = animationVerdict({
      ...judged.measures,
      cutPoints: points,
      cutPixels: pixels,
    });
    const at = names[0]?.startsWith('cut') ? cutAt : ((names[0] && judged.at[names[0]]) ?? 0);
    const cells = await cellsOf(
      { still: still.picture, frames, between: driver, at, fault: names[0] },
      judged,
    );
    return { ...place, ...verdict, label: `${name}, frame ${at}`, cells };
  } catch (error) {
    // A still whose face is not found is refused, and nothing is charged.
    if (!(error instanceof RenderError)) throw error;
    return { ...place, label: `${name}, refused`, worst: 1, faults: [error.message], cells: [] };
  }
}

/** Whether the driver's lips are closed. */
function isClosed(frame: number): boolean {
  const { open, smile } = actAt(frame / DRIVER_RATE);
  return open + smile < 0.005;
}
