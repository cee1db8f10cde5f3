import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runScript } from '@semblance/testkit/common/run-script';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { holderOf, isLocked, lock, tryLock } from './lock.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'semblance-lock-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const module = new URL('./lock.ts', import.meta.url).href;

describe('lock', () => {
  it('lets one process in and names it to the others', async () => {
    const path = join(folder, 'deep', 'lock');
    const held = tryLock(path);
    expect(held).toBeDefined();
    const other = runScript(`
      import { holderOf, isLocked, tryLock } from ${JSON.stringify(module)};
      console.log(JSON.stringify([tryLock(${JSON.stringify(path)}) === undefined, isLocked(${JSON.stringify(path)}), holderOf(${JSON.stringify(path)})]));
    `);
    expect(JSON.parse(await other.output)).toEqual([true, true, process.pid]);
    held?.release();
    held?.release();
    expect(isLocked(path)).toBe(false);
    const next = tryLock(path);
    expect(next).toBeDefined();
    next?.release();
  });

  it('is free as soon as its holder is killed', async () => {
    const path = join(folder, 'lock');
    const holder = runScript(`
      import { tryLock } from ${JSON.stringify(module)};
      globalThis.held = tryLock(${JSON.stringify(path)});
      console.log('held');
      setInterval(() => {}, 1000);
    `);
    await holder.line('held');
    expect(tryLock(path)).toBeUndefined();
    let told: number | undefined;
    const waiting = lock(path, {
      onWait: (pid) => {
        told = pid;
        holder.child.kill('SIGKILL');
      },
    });
    (await waiting).release();
    expect(told).toBe(holder.child.pid);
    expect(holderOf(path)).toBeUndefined();
  });

  it('stops waiting when told to', async () => {
    const path = join(folder, 'lock');
    const held = tryLock(path);
    // Two handles in one process exclude each other like two processes.
    const waiting = lock(path, { signal: AbortSignal.timeout(50) });
    await expect(waiting).rejects.toThrow();
    held?.release();
  });

  it('says which folder it cannot lock in', () => {
    expect(() => tryLock('/dev/null/lock')).toThrow();
    expect(isLocked(join(folder, 'never'))).toBe(false);
  });
});
