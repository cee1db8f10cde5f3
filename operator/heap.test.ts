import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';

/** Module that records the V8 flags a process sets. */
const NOTING = `
import v8 from 'node:v8';
import { appendFileSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
const set = v8.setFlagsFromString;
v8.setFlagsFromString = (flags) => {
  appendFileSync(process.env.NOTED, flags + '\\n');
  set(flags);
};
syncBuiltinESMExports();
`;

it('an operator that is run has V8 collect early', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'semblance-heap-'));
  try {
    const noted = join(dir, 'noted');
    const child = spawn(process.execPath, [join(import.meta.dirname, 'main.ts')], {
      stdio: 'ignore',
      env: {
        PATH: process.env.PATH,
        HOME: dir,
        NOTED: noted,
        NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(NOTING)}`,
        // The value is invalid, so the operator ends. By then the flags are set.
        SEMBLANCE_OPERATOR_CONCURRENCY: 'none',
      },
    });
    const [code] = await once(child, 'exit');
    expect(code).toBe(1);
    expect(await readFile(noted, 'utf8')).toBe('--optimize-for-size\n--heap-growing-percent=40\n');
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}, 60_000);
