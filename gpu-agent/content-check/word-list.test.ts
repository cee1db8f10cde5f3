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

  describe('of a writing whose marks are letters', () => {
    const found = async (entry: string, script: string) => {
      const own = join(dir, 'own.txt');
      await writeFile(own, `${entry}\n`);
      const subject = { phase: 'input' as const, jobName: 'job', capability: 'avatar' as const };
      const verdict = await wordList(own).check({ ...subject, parameters: { script }, files: [] }, idle);
      return !verdict.allowed;
    };

    it.each([
      ['Thai', 'หี', 'มันคือหี', 'สวัสดีครับ ให้ผมช่วยนะ'],
      ['Hindi', 'चोद', 'वह चोद है', 'चंद लोग आए'],
      ['Hindi, of a longer word', 'कम', 'कम करो', 'कमी है'],
      ['Thai, of another syllable', 'กา', 'มีกาบิน', 'กี'],
      ['Thai, before a vowel', 'ก', 'กา', 'กี'],
      ['Japanese', 'ばか', 'このばか者', 'はかりを買う'],
      ['Japanese in half width', 'バカ', 'ｺﾉﾊﾞｶ', 'ﾊｶﾘ'],
      ['Burmese', 'မိ', 'အမိမြေ', 'မာလာ'],
      ['Korean', '한국', '한국 사람', '하구'],
    ])('tells words apart in %s', async (_writing, entry, script, harmless) => {
      expect(await found(entry, script)).toBe(true);
      expect(await found(entry, script.normalize('NFD'))).toBe(true);
      expect(await found(entry.normalize('NFD'), script)).toBe(true);
      expect(await found(entry, harmless)).toBe(false);
    });

    it.each([
      ['Russian', 'ёлка', 'Елка'],
      ['Hebrew', 'שָׁלוֹם', 'שלום'],
      ['Arabic', 'مَرْحَبًا', 'مرحبا'],
      ['Greek', 'λόγος', 'Λογος'],
      ['Vietnamese', 'tiếng Việt', 'TIENG VIET'],
      ['marks around letters', 'd\u20DDa\u1DC4m\uFE20n\u1AB0', 'damn'],
    ])('takes no notice of accents in %s', async (_writing, entry, script) => {
      expect(await found(entry, script)).toBe(true);
      expect(await found(script, entry)).toBe(true);
    });

    it.each([
      ['Latin', 'damn', 'da\u0E34mn you'],
      ['Latin, voiced as kana', 'damn', 'da\u3099mn you'],
      ['Han', '禁止', '禁\u093F止'],
      ['Thai', 'หี', 'ห\u093Fี'],
    ])('is not misled by marks of another writing in %s', async (_writing, entry, script) => {
      expect(await found(entry, script)).toBe(true);
    });
  });

  it.each([
    ...['\u115F', '\u1160', '\u3164', '\uFFA0', '\u2065', '\uFFF0', '\u{E0002}', '\u{E0100}', '\u034F'],
    ...['\u200D', '\u00AD', '\uFEFF', '\u180B', '\uFE0F', '\u{1D173}', '\u06DD'],
  ])('finds a word that has %j in it', async (invisible) => {
    expect((await check(`bu${invisible}y now`)).allowed).toBe(false);
    expect((await check(`buy${invisible} ${invisible}now${invisible}`)).allowed).toBe(false);
  });

  it('looks at a script once, before it is spoken', async () => {
    expect(await check('buy now', 'output')).toEqual({ allowed: true });
  });

  it('does not let through what it cannot compare', async () => {
    const subject = {
      phase: 'input' as const,
      jobName: 'job',
      capability: 'avatar' as const,
      parameters: { script: 'hello' },
      files: [],
    };
    const absent = wordList(join(dir, 'absent.txt'));
    await expect(absent.check(subject, new AbortController().signal)).rejects.toMatchObject({
      name: 'ContentCheckError',
    });
  });
});
