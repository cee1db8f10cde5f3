import { runPhotoSwapBench } from './photo-swap-bench.ts';

/**
 * `node test/bench/photo-swap/run.ts` measures Photo Swap and says which goals are met. Exits with 1 if one is not.
 */
const rows = await runPhotoSwapBench({ log: (line) => console.log(line) });
console.log('');
for (const { name, ours, goal, met, unit } of rows) {
  const verdict = met === undefined ? '      ' : met ? 'met   ' : 'MISSED';
  console.log(`${verdict} ${name.padEnd(58)} ${String(ours).padStart(9)} ${unit.padEnd(12)} ${goal ?? ''}`);
}
process.exitCode = rows.some((row) => row.met === false) ? 1 : 0;
