import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { wordList } from './word-list.ts';

const idle = new AbortController().signal;
let dir: string;
let list: string;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'semblance-word-list-'));
  list = join(dir, 'words.txt');
  await writeFile(list, '# a comment\nbuy now\nCafé\n禁止\nc++\npre-order\n24/7\n');
});
afterAll(() => rm(dir, { recursive: true, force: true }));

function check(script: string, phase: 'input' | 'output' = 'input') {
  const subject = { phase, jobName: 'job', capability: 'avatar' as const, parameters: { script }, files: [] };
  return wordList(list).check(subject, new AbortController().signal);
}

describe('a word list', () => {
  it.each([
    'Hello, BUY  NOW!',
    'buy\nnow',
    'b\u200buy n\u00ADow',
    'ｂｕｙ　ｎｏｗ',
    'the cafe',
    'CAFE\u0301',
    '在这里禁止进入',
    'I like C++ a lot',
    'Pre-order today',
    'open 24/7',
  ])('refuses %j', async (script) => {
    expect(await check(script)).toEqual({
      allowed: false,
      reason: 'The script contains words that are not allowed here.',
    });
  });

  it.each(['', 'buy it now', 'buy nowhere', 'cafeteria', '禁 止', 'C+', 'a comment'])(
    'allows %j',
    async (script) => {
      expect(await check(script)).toEqual({ allowed: true });
    },
  );

  it.each([...'!"#$%&\'()*+,-./:;<=>?@[\\]^_`{|}~'])(
    'takes %s in an entry as it is written',
    async (mark) => {
      const own = join(dir, 'mark.txt');
      await writeFile(own, `a${mark}b\n`);
      const found = async (script: string) => {
        const parameters = { script };
        const subject = { phase: 'input' as const, jobName: 'job', capability: 'avatar' as const };
        return !(await wordList(own).check({ ...subject, parameters, files: [] }, idle)).allowed;
      };
      expect(await found(`say a${mark}b now`)).toBe(true);
      expect(await found('say ab and a b')).toBe(false);
    },
  );

  it('looks at a script once, before it is spoken', async () => {
    expect(await check('buy now', 'output')).toEqual({ allowed: true });
  });

  it('does not let through what it cannot compare', async () => {
    const subject = {
      ...{ phase: 'input' as const, jobName: 'job', capability: 'avatar' as const },
      ...{ parameters: { script: 'hello' }, files: [] },
    };
    const absent = wordList(join(dir, 'absent.txt'));
    await expect(absent.check(subject, new AbortController().signal)).rejects.toMatchObject({
      name: 'ContentCheckError',
    });
  });
});
