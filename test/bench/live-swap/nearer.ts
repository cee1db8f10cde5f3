import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { loadCharacters } from '@semblance/engine-builtin/live-swap/characters';
import { createLiveVideo } from '@semblance/engine-builtin/live-swap/live-video';
import { readPicture } from '@semblance/testkit/engine-builtin/video-swap/clips';
import { distance, dlibJudge } from '@semblance/testkit/quality/judge';
import type { FaceFinder } from '@semblance/vision/face-finder';
import { ROOT } from '../photo-swap/portraits.ts';

const SAMPLED = 10;

/**
 * How many of the examined pictures (`of`) have a new face that is nearer to the source than to the original
 * person.
 */
export interface Nearer {
  readonly count: number;
  readonly of: number;
}

/** Swaps the pictures of a folder, `*.jpg`, to the default character, as fast as possible. */
export async function swapFolder(from: string, to: string): Promise<void> {
  await mkdir(to, { recursive: true });
  const live = createLiveVideo({
    slots: 1,
    characters: await loadCharacters(),
    onCrash: (error) => {
      throw error;
    },
  });
  try {
    await live.warmUp();
    const stream = await live.open({ look: { kind: 'character', name: 'astronaut' } });
    for (const name of (await readdir(from)).sort())
      await writeFile(join(to, name), (await stream.transform(await readFile(join(from, name)))).picture);
    await stream.close();
  } finally {
    await live.close();
  }
}

/** Compares every `SAMPLED`-th picture of both folders, with a descriptor that no engine uses. */
export async function nearerToSource(finder: FaceFinder, before: string, after: string): Promise<Nearer> {
  const recogniser = await dlibJudge();
  const source = await readPicture(join(ROOT, 'media', 'astronaut.png'));
  const [face] = await finder.find(source, () => undefined);
  if (!face) throw new Error('no face in the source');
  const wanted = await recogniser.describe(source, face);
  let [count, of] = [0, 0];
  for (const name of await sampled(after)) {
    const [old, fresh] = [await readPicture(join(before, name)), await readPicture(join(after, name))];
    const [there] = await finder.find(old, () => undefined);
    if (!there) continue;
    const [own, swapped] = [await recogniser.describe(old, there), await recogniser.describe(fresh, there)];
    of++;
    if (distance(swapped, wanted) < distance(swapped, own)) count++;
  }
  return { count, of };
}

export async function sampled(folder: string): Promise<string[]> {
  return (await readdir(folder)).sort().filter((_, i) => i % SAMPLED === 0);
}
