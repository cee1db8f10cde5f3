import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { silentLogger } from '@semblance/common/logging';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { checkedOutput, openWorkDir } from './work-dir.ts';

const logger = silentLogger();
let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'semblance-workdir-'));
});
afterEach(() => rm(root, { recursive: true, force: true }));

describe('openWorkDir', () => {
  it('makes folders that are closed to others, and removes them', async () => {
    const work = await openWorkDir({ root: join(root, 'deep', 'er'), incarnation: 'i1', logger });
    const attempt = await work.attempt('uid-1');
    for (const path of [work.path, work.engines, attempt.inputs, attempt.output]) {
      expect((await stat(path)).mode & 0o777).toBe(0o700);
    }
    await writeFile(join(attempt.output, 'x'), 'x');
    await attempt.remove();
    expect(await readdir(join(work.path, 'attempts'))).toEqual([]);
    await work.remove();
    expect(await readdir(join(root, 'deep', 'er'))).toEqual([]);
  });

  it('removes what a killed process left, and nothing else', async () => {
    const dead = join(root, 'run-dead');
    await mkdir(join(dead, 'attempts', 'a'), { recursive: true });
    await writeFile(join(dead, 'owner.json'), '{"pid":4194000,"startTicks":"1"}');
    await mkdir(join(root, 'run-without-owner'));
    await writeFile(join(root, 'somebody-elses'), 'x');
    const work = await openWorkDir({ root, incarnation: 'i2', logger });
    expect((await readdir(root)).sort()).toEqual(['run-i2', 'somebody-elses']);
    await work.remove();
  });

  it('does not follow a link out of the folder when it removes', async () => {
    const outside = await mkdtemp(join(tmpdir(), 'semblance-outside-'));
    await writeFile(join(outside, 'keep'), 'x');
    await symlink(outside, join(root, 'run-link'));
    await openWorkDir({ root, incarnation: 'i3', logger });
    expect(await readdir(outside)).toEqual(['keep']);
    expect(await readdir(root)).toEqual(['run-i3']);
    await rm(outside, { recursive: true });
  });

  it('refuses the directory of a process that lives', async () => {
    const other = spawn('sleep', ['30']);
    const folder = join(root, 'run-other');
    await mkdir(folder);
    const text = await readFile(`/proc/${other.pid}/stat`, 'utf8');
    const startTicks = text.slice(text.lastIndexOf(')') + 2).split(' ')[19];
    await writeFile(join(folder, 'owner.json'), JSON.stringify({ pid: other.pid, startTicks }));
    await expect(openWorkDir({ root, incarnation: 'i4', logger })).rejects.toMatchObject({
      code: 'workdir_unusable',
      message: expect.stringContaining(`is used by process ${other.pid}`),
    });
    expect(await readdir(root)).toEqual(['run-other']);
    other.kill();
    await once(other, 'exit');
    await openWorkDir({ root, incarnation: 'i5', logger });
    expect(await readdir(root)).toEqual(['run-i5']);
  });

  it('says when the directory cannot be used', async () => {
    await writeFile(join(root, 'file'), '');
    await expect(
      openWorkDir({ root: join(root, 'file', 'x'), incarnation: 'i', logger }),
    ).rejects.toMatchObject({ code: 'workdir_unusable', message: expect.stringContaining('ENOTDIR') });
  });
});

describe('checkedOutput', () => {
  it('takes a file in its folder', async () => {
    await writeFile(join(root, 'out.png'), 'abc');
    expect(await checkedOutput(join(root, 'out.png'), root)).toBe(3);
  });

  it.each([
    ['is elsewhere', '/etc/hostname', /outside/],
    ['climbs out', '../../etc/hostname', /outside|no such/i],
    ['is a link', 'link', /regular/],
    ['is a folder', '.', /regular/],
    ['is empty', 'empty', /empty/],
    ['is not there', 'nothing', /no such/],
    ['is below a linked folder', 'linked/hostname', /outside/],
  ])('refuses what %s', async (_what, path, message) => {
    await symlink('/etc/hostname', join(root, 'link'));
    await symlink('/etc', join(root, 'linked'));
    await writeFile(join(root, 'empty'), '');
    await chmod(root, 0o700);
    const full = path.startsWith('/') ? path : join(root, path);
    await expect(checkedOutput(full, root)).rejects.toThrow(message);
  });
});
