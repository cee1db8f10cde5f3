/**
 * Compiles `wall.c` to the program `semblance-wall`, on Linux where there is a C compiler. Without one, decoders run
 * without most of their walls, and this says so.
 *
 *   node packages/media/wall/build.ts [output folder]
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';

const here = import.meta.dirname;
const out = process.argv[2] ?? join(here, 'gen');
const file = join(out, 'semblance-wall');
const unfinished = `${file}.${process.pid}`;
const FLAGS = ['-O2', '-Wall', '-Wextra', '-pthread', '-s'];

const WITHOUT = 'decoders run without the walls of semblance-wall (docs/guide/platform/decoders.md)';
mkdirSync(out, { recursive: true });
rmSync(file, { force: true });
if (process.platform !== 'linux') console.log(`This is no Linux: ${WITHOUT}.`);
else if (!['cc', 'gcc', 'clang'].some(compile))
  console.log(`There is no C compiler (cc, gcc, clang): ${WITHOUT}.`);

/**
 * Links statically, so that the program runs on every Linux; where the C library has no static form, as it is.
 * Returns whether there is such a compiler.
 */
function compile(cc: string): boolean {
  let why = '';
  for (const linked of [['-static'], []]) {
    const args = [...FLAGS, ...linked, '-o', unfinished, join(here, 'wall.c')];
    const { status, stderr, error } = spawnSync(cc, args, { encoding: 'utf8' });
    if ((error as NodeJS.ErrnoException | undefined)?.code === 'ENOENT') return false;
    if (status === 0) {
      renameSync(unfinished, file);
      return true;
    }
    why = error?.message ?? stderr.trim();
  }
  rmSync(unfinished, { force: true });
  console.warn(`${cc} cannot compile semblance-wall: ${WITHOUT}.\n${why}`);
  return true;
}
