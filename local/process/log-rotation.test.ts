import {
  appendFileSync,
  closeSync,
  existsSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { KEPT, MAX_BYTES, rotateLog } from './log-rotation.ts';

let file: string;
beforeEach(() => {
  file = join(mkdtempSync(join(tmpdir(), 'semblance-log-')), 'x.log');
});
afterEach(() => rmSync(join(file, '..'), { recursive: true, force: true }));

/** Makes the log longer than it may be; what it says stays at its beginning. */
const grow = () => truncateSync(file, MAX_BYTES + 1);
/** Returns what a log says before the empty rest by which it grew. */
const said = (path: string) => readFileSync(path, 'utf8').replace(/\0+$/, '');

describe('rotateLog', () => {
  it('leaves a small log alone, and one that is not there', async () => {
    expect(await rotateLog({ file, open: false })).toBe(false);
    writeFileSync(file, '0123456789');
    truncateSync(file, MAX_BYTES);
    expect(await rotateLog({ file, open: false })).toBe(false);
    expect(said(file)).toBe('0123456789');
  });

  it('keeps so many older ones', async () => {
    for (const text of ['one', 'two', 'three', 'four', 'five']) {
      writeFileSync(file, text);
      grow();
      expect(await rotateLog({ file, open: false })).toBe(true);
    }
    expect(existsSync(file)).toBe(false);
    expect([1, 2, 3].map((number) => said(`${file}.${number}`))).toEqual(['five', 'four', 'three']);
    expect(existsSync(`${file}.${KEPT + 1}`)).toBe(false);
  });

  it('empties a log that a process goes on writing to', async () => {
    const fd = openSync(file, 'a');
    writeSync(fd, 'before\n');
    grow();
    expect(await rotateLog({ file, open: true })).toBe(true);
    writeSync(fd, 'after\n');
    closeSync(fd);
    appendFileSync(file, 'end\n');
    expect(said(`${file}.1`)).toBe('before\n');
    expect(readFileSync(file, 'utf8')).toBe('after\nend\n');
  });
});
