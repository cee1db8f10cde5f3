/**
 * Compiles `assembly/kernels.ts` (AssemblyScript) to WebAssembly.
 *
 *   node packages/voice/kernels/generate.ts [output folder]
 */
import { mkdirSync } from 'node:fs';
import { join, relative } from 'node:path';
import { main } from 'assemblyscript/asc';

const here = import.meta.dirname;
const out = process.argv[2] ?? join(here, 'gen');
/** Pages of 64 KiB. Two streams of 96 kHz need 160 KiB. */
const PAGES = 4;

mkdirSync(out, { recursive: true });
// The compiler resolves and names its files relative to the current folder.
const from = relative(process.cwd(), join(here, 'assembly', 'kernels.ts'));
const to = relative(process.cwd(), join(out, 'kernels.wasm'));
const { error, stderr } = await main([
  ...[from, '--outFile', to],
  ...['--enable', 'simd', '--runtime', 'stub', '--initialMemory', String(PAGES)],
  ...['-O3', '--noAssert'],
]);
if (error) {
  console.error(stderr.toString());
  throw error;
}
