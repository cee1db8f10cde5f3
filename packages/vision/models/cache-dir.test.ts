import { mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { usableCacheDir } from './cache-dir.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'semblance-cache-dir-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

/** A part of the file system that even root cannot write to. */
const READ_ONLY = '/proc/sys';

it('is where it was set to, and in a home that can be written to', () => {
  expect(usableCacheDir({ SEMBLANCE_CACHE_DIR: `${READ_ONLY}/x` }, folder)).toBe(`${READ_ONLY}/x`);
  expect(usableCacheDir({ XDG_CACHE_HOME: join(folder, 'not/there') }, folder)).toBe(
    join(folder, 'not/there/semblance'),
  );
});

it('is a folder for its owner alone beside the temporary files where there is no such home', () => {
  const dir = usableCacheDir({ XDG_CACHE_HOME: READ_ONLY }, folder);
  expect(dir).toBe(join(folder, `semblance-cache-${process.getuid?.()}`));
  expect(statSync(dir).mode & 0o777).toBe(0o700);
  expect(usableCacheDir({ XDG_CACHE_HOME: READ_ONLY }, folder)).toBe(dir);
});

it('is not where somebody else has put a link', () => {
  mkdirSync(join(folder, 'theirs'));
  symlinkSync('theirs', join(folder, `semblance-cache-${process.getuid?.()}`));
  expect(() => usableCacheDir({ XDG_CACHE_HOME: READ_ONLY }, folder)).toThrow(/belongs to somebody else/);
});
