/**
 * `node test/fuzz/media.ts [--runs N] [--seed N]` sends damaged videos through everything that a render does with them. Each must be rendered or refused in time, and leave no file and no process. The first that fails is kept in a file and reported with its seed, and ends the run with status 1. Without `--runs`, it runs until it is interrupted.
 */
import { writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { describeError } from '@semblance/common/errors';
import { openMediaRig } from '@semblance/testkit/media/clips';
import { mutate, randomFrom, seedFiles, tryFile } from '@semblance/testkit/media/fuzz';

const { values } = parseArgs({ options: { runs: { type: 'string' }, seed: { type: 'string' } } });
const runs = Number(values.runs ?? Number.POSITIVE_INFINITY);
const first = Number(values.seed ?? Math.floor(Math.random() * 2 ** 31));
/** Longest time for a file, in ms; a slower file would keep a slot of an agent busy for no good reason. */
const SLOWEST_MS = 60_000;

const rig = await openMediaRig({ stallSec: 10, limits: { maxDurationSec: 60, maxFrames: 2_000 } });
const seeds = await seedFiles(rig);
const outcomes: Record<string, number> = {};
let ending = false;
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    ending = true;
  });
}
console.log(`from seed ${first}`);
let done = 0;
for (; done < runs && !ending; done++) {
  const seed = first + done;
  const random = randomFrom(seed);
  const file = seeds[seed % seeds.length] as Buffer;
  const other = seeds[Math.floor(random() * seeds.length)] as Buffer;
  const bytes = mutate(file, other, random);
  const began = performance.now();
  try {
    const outcome = await tryFile(rig.media, rig.dir, bytes);
    const tookMs = performance.now() - began;
    if (tookMs > SLOWEST_MS) throw new Error(`took ${Math.round(tookMs / 1000)} s`);
    outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
  } catch (error) {
    const kept = join(tmpdir(), `semblance-fuzz-${seed}`);
    await writeFile(kept, bytes);
    console.error(`seed ${seed}, kept as ${kept}: ${describeError(error)}`);
    process.exitCode = 1;
    break;
  }
  if ((done + 1) % 25 === 0) console.log(`${done + 1} files: ${JSON.stringify(outcomes)}`);
}
console.log(`${done} files: ${JSON.stringify(outcomes)}`);
await rig.close();
