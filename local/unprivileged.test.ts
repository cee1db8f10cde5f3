import { chmodSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { chooseDisguise, type Disguise, ensureOwner, RootRefusedError } from './unprivileged.ts';

const isRoot = process.getuid?.() === 0;
let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'semblance-root-'));
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true, force: true });
});

/** Returns the choice when these programs fail, as they do in a container without the permission. */
function chosenWithout(...refusing: string[]): Disguise {
  for (const name of refusing) {
    writeFileSync(join(folder, name), '#!/bin/sh\nexit 1\n');
    chmodSync(join(folder, name), 0o755);
  }
  vi.stubEnv('PATH', `${folder}${delimiter}${process.env.PATH}`);
  return chooseDisguise([folder]);
}

describe('chooseDisguise', () => {
  it('changes nothing for an ordinary user, and never leaves root as root', () => {
    const chosen = chooseDisguise([folder]);
    if (!isRoot) expect(chosen).toEqual({ name: 'none', prefix: [] });
    else expect(chosen.prefix.length).toBeGreaterThan(1);
  });

  it('becomes another user where namespaces are refused, and says so where nothing is allowed', () => {
    if (!isRoot) {
      expect(chosenWithout('unshare', 'setpriv').name).toBe('none');
      return;
    }
    const chosen = chosenWithout('unshare');
    expect(chosen.owner).toBe(65_534);
    expect(chosen.prefix[0]).toMatch(/\/setpriv$/);
    expect(() => chosenWithout('unshare', 'setpriv')).toThrow(RootRefusedError);
  });
});

describe('ensureOwner', () => {
  it('hands over a folder with all that is in it, and leaves alone what is theirs already', async () => {
    mkdirSync(join(folder, 'data/base'), { recursive: true });
    writeFileSync(join(folder, 'data/base/1'), 'x');
    const owner = isRoot ? 65_534 : (process.getuid?.() ?? 0);
    await ensureOwner(join(folder, 'data'), owner);
    for (const path of ['data', 'data/base', 'data/base/1'])
      expect(statSync(join(folder, path)).uid).toBe(owner);
    await ensureOwner(join(folder, 'data'), owner);
    expect(statSync(join(folder, 'data')).uid).toBe(owner);
  });
});
