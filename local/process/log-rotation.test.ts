import {
  appendFileSync,
  closeSync,
  existsSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { rotateLog } from './log-rotation.ts';

let file: string;
beforeEach(() => {
  file = join(mkdtempSync(join(tmpdir(), 'semblance-log-')), 'x.log');
});
afterEach(() => rmSync(join(file, '..'), { recursive: true, force: true }));

describe('rotateLog', () => {
  it('leaves a small log alone, and one that is not there', async () => {
    expect(await rotateLog({ file, open: false, maxBytes: 10 })).toBe(false);
    writeFileSync(file, '0123456789');
    expect(await rotateLog({ file, open: false, maxBytes: 10 })).toBe(false);
    expect(readFileSync(file, 'utf8')).toBe('0123456789');
  });

  it('keeps so many older ones', async () => {
    for (const text of ['one', 'two', 'three', 'four']) {
      writeFileSync(file, text);
      expect(await rotateLog({ file, open: false, maxBytes: 1, keep: 2 })).toBe(true);
    }
    expect(existsSync(file)).toBe(false);
    expect(readFileSync(`${file}.1`, 'utf8')).toBe('four');
    expect(readFileSync(`${file}.2`, 'utf8')).toBe('three');
    expect(existsSync(`${file}.3`)).toBe(false);
  });

  it('empties a log that a process goes on writing to', async () => {
    const fd = openSync(file, 'a');
    writeSync(fd, 'before\n');
    expect(await rotateLog({ file, open: true, maxBytes: 1 })).toBe(true);
    writeSync(fd, 'after\n');
    closeSync(fd);
    appendFileSync(file, 'end\n');
    expect(readFileSync(`${file}.1`, 'utf8')).toBe('before\n');
    expect(readFileSync(file, 'utf8')).toBe('after\nend\n');
  });
});
