import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';

const folder = mkdtempSync(join(tmpdir(), 'semblance-telemetry-'));
afterAll(() => rmSync(folder, { recursive: true }));

it('onnxruntime keeps no number of the machine, and no log of what it would send', () => {
  const session = join(import.meta.dirname, 'session.ts');
  const script = `const { openSession } = await import(${JSON.stringify(session)});
    await openSession('blazeface');`;
  // The library stays silent on build machines, so the variables by which it knows them are removed.
  const env = { PATH: process.env.PATH, HOME: folder, TMPDIR: folder };
  execFileSync(process.execPath, ['--input-type=module', '--eval', script], { env, stdio: 'ignore' });
  expect(readdirSync(folder, { recursive: true })).toEqual([]);
});
