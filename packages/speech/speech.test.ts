/** @module-tag speech */
import { execFileSync } from 'node:child_process';
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { readDurations } from './flite.ts';
import { pitchOf } from './pitch.ts';
import { resample } from './resample.ts';
import { SAMPLE_RATE, type SpeakOptions, type SpokenScript, speakScript } from './speech.ts';
import type { SpeechTools } from './speech-tools.ts';
import { findSpeechTools } from './tools.ts';

let tools: SpeechTools;
let dir: string;

beforeAll(async () => {
  const found = await findSpeechTools();
  if (!found.available) throw new Error(found.reason);
  tools = found;
  dir = await mkdtemp(join(tmpdir(), 'semblance-speech-'));
});

afterAll(() => rm(dir, { recursive: true, force: true }));

interface Said extends SpokenScript {
  readonly samples: Int16Array;
  readonly sounds: string;
}

async function say(script: string, options: Partial<SpeakOptions> = {}): Promise<Said> {
  const directory = await mkdtemp(join(dir, 'say-'));
  const path = join(directory, 'out.wav');
  const signal = new AbortController().signal;
  const spoken = await speakScript({ script, path, directory, tools, signal, ...options });
  // No other file is left.
  expect(await readdir(directory)).toEqual(['out.wav']);
  const file = await readFile(path);
  const samples = new Int16Array(file.buffer.slice(file.byteOffset + 44, file.byteOffset + file.length));
  expect(file.readUInt32LE(40)).toBe(samples.byteLength);
  expect(samples.length / SAMPLE_RATE).toBeCloseTo(spoken.seconds, 3);
  return { ...spoken, samples, sounds: spoken.phones.flatMap(({ sound }) => sound ?? []).join(' ') };
}

function level({ samples }: Said, from: number, to: number): number {
  const part = samples.subarray(Math.round(from * SAMPLE_RATE), Math.round(to * SAMPLE_RATE));
  return Math.sqrt(part.reduce((sum, value) => sum + value * value, 0) / Math.max(1, part.length));
}

describe('speech', () => {
  it.each(['slt', 'rms', 'awb', 'kal', 'espeak-ng/en-us', 'espeak-ng/en-gb+f3'])(
    'of %s tells its sounds when they are heard',
    async (voiceId) => {
      const said = await say('Papa paid for a map. Bob may have a farm far from here!', { voiceId });
      expect(said.voice).toBe(voiceId);
      let last = 0;
      for (const { start, end } of said.phones) {
        expect(start).toBeCloseTo(last, 3);
        expect(end).toBeGreaterThan(start - 1e-9);
        last = end;
      }
      expect(last).toBeCloseTo(said.seconds, 2);
      const mean = (of: (sound: string | undefined) => boolean) => {
        const levels = said.phones
          .filter(({ sound, start, end }) => of(sound) && end - start > 0.04)
          .map(({ start, end }) => level(said, start + 0.25 * (end - start), end - 0.25 * (end - start)));
        return levels.reduce((sum, value) => sum + value, 0) / levels.length;
      };
      const vowels = mean((sound) => /^(aa|ae|ay|ey|er|ih|iy|ah|ao)$/.test(sound ?? ''));
      // A closed mouth and a pause are silent.
      expect(vowels).toBeGreaterThan(4 * mean((sound) => sound === 'p'));
      expect(vowels).toBeGreaterThan(10 * mean((sound) => sound === undefined));
      expect(said.sounds.match(/\b[pbm]\b/g)?.length).toBeGreaterThanOrEqual(7);
    },
  );

  it.each([
    ['de', 'Guten Morgen, Mama.', /g uw t .* m ao .* m aa m/],
    ['es', 'Buenos días, papá.', /^b w .* p (hh )?aa p (hh )?aa$/],
    ['ru', 'Моя мама дома.', /m .* m aa m .* d ow m/],
    ['zh-CN', '妈妈', /^m aa m aa$/],
    ['hi', 'माँ', /^m /],
    ['ar', 'مرحبا', /^m .* b/],
  ])('in %s has the sounds of the words', async (language, script, sounds) => {
    const said = await say(script, { language });
    expect(said.sounds).toMatch(sounds);
    expect(said.voice).toMatch(/^espeak-ng\//);
  });

  it('takes neither markup nor commands nor options out of a script', async () => {
    const marker = join(dir, 'marker');
    for (const voiceId of ['slt', 'espeak-ng/en-us']) {
      // SSML would be silent for 9 s. Phonemes in brackets and \u0001 are commands of espeak-ng.
      const said = await say(
        `<break time="9s"/>[[m'a:m]] \u0001200S $(touch ${marker}) \`touch ${marker}\` -h | > ${marker}`,
        { voiceId },
      );
      expect(said.sounds).toMatch(/b r (ey|eh) k t ay m/);
      expect(said.seconds).toBeGreaterThan(8);
      expect((await say('--help', { voiceId })).sounds).toMatch(/hh eh l p/);
    }
    expect(await readdir(dir)).not.toContain('marker');
  });

  it.each([
    ['of letters', 'a'.repeat(500)],
    ['of punctuation around a word', `${'!?.,;:-'.repeat(60)} word ${'“”…'.repeat(60)}`],
    ['from right to left', '\u202Eשלום עולם\u202C'],
    ['of letters under heaps of marks', `Z${'\u0351'.repeat(300)}algo speaks`],
    ['of rare letters', '𝔣𝔯𝔞𝔨 ɓera ok'],
  ])('says a row %s', async (_what, script) => {
    expect((await say(script)).sounds).not.toBe('');
  });

  it.each([
    ['slt', 're\u2060ad a\uFE0Fnd wri\u200Dte', 'read and write'],
    ['slt', 'shelf\u200Cful', 'shelfful'],
    ['espeak-ng/en-us', 're\u2060ad a\uFE0Fnd wri\u200Dte', 'read and write'],
    ['espeak-ng/ar', 'مر\u200Dحبا', 'مرحبا'],
    ['espeak-ng/ar', 'ﻣﺮﺣﺒﺎ', 'مرحبا'],
    ['espeak-ng/ja', 'これはＮＨＫのﾆｭｰｽです。', 'これはNHKのニュースです。'],
    ['espeak-ng/de', '𝐆𝐮𝐭𝐞𝐧 Tag, Punkt ② und ③.', 'Guten Tag, Punkt 2 und 3.'],
    ['espeak-ng/fr-fr', 'Louis ⅩⅣ', 'Louis XIV'],
  ])('of %s takes %j for whole words', async (voiceId, script, words) => {
    expect((await say(script, { voiceId })).sounds).toBe((await say(words, { voiceId })).sounds);
  });

  it.each(['espeak-ng/en-us', 'espeak-ng/ur', 'espeak-ng/si', 'slt'])(
    'of %s says the digits of every writing',
    async (voiceId) => {
      const said = await say('۳۴ ៥', { voiceId });
      expect(said.sounds).toBe((await say('34 5', { voiceId })).sounds);
      expect(said.sounds).not.toBe('');
    },
  );

  it('reads letters that are told apart by a joiner', async () => {
    const [joined, apart] = [await say('അവന്\u200D'), await say('അവന്')];
    expect(joined.sounds).not.toBe(apart.sounds);
  });

  it('says letters that the voice cannot read with a voice that can', async () => {
    const said = await say('Hello. Привет.', { voiceId: 'slt' });
    expect([said.voice, said.otherVoices]).toEqual(['slt', ['espeak-ng/ru+f2']]);
  });

  it('says words that the voice cannot read within a sentence with a voice that can', async () => {
    for (const voiceId of ['slt', 'espeak-ng/en-us']) {
      const said = await say('My name is Иван, and hers “Мама”.', { voiceId });
      expect([said.voice, said.otherVoices, said.leftOut]).toEqual([
        voiceId,
        [voiceId === 'slt' ? 'espeak-ng/ru+f2' : 'espeak-ng/ru'],
        [],
      ]);
      expect(said.sounds).toMatch(/^m ay n ey m ih z .*v aa n .*hh .*m aa m/);
    }
  });

  it.each(['slt', 'espeak-ng/en-us'])(
    'of %s refuses words that no voice reads, and names them',
    async (voiceId) => {
      await expect(say('Hello there. សួស្តី អ្នក Good bye.', { voiceId })).rejects.toMatchObject({
        code: 'processing_failed',
        message: expect.stringContaining('a part of the script: Khmer ("សួស្តី", "អ្នក").'),
      });
    },
  );

  it.each(['slt', 'espeak-ng/en-us'])(
    'of %s leaves out single letters that no voice reads, and says so',
    async (voiceId) => {
      const said = await say('Hello ក there, 5ᚠ.', { voiceId });
      expect(said.leftOut).toEqual(['ក (Khmer)', 'ᚠ (Runic)']);
      expect(said.sounds).toBe((await say('Hello   there, 5 .', { voiceId })).sounds);
    },
  );

  it('is the same each time', async () => {
    const script = 'The same words. Те же слова.';
    expect(await say(script)).toEqual(await say(script));
  });

  it.each(['?!… 😀', '\u202E \u0007'])('has nothing to say of %j', async (script) => {
    await expect(say(script)).rejects.toMatchObject({
      code: 'processing_failed',
      message: expect.stringContaining('nothing to say'),
    });
  });

  it('ends soon when it is cancelled, and leaves nothing running', async () => {
    const abort = new AbortController();
    const onProgress = () => abort.abort(new Error('cancelled by its owner'));
    for (const voiceId of ['slt', 'espeak-ng/de']) {
      await expect(
        say('One sentence. '.repeat(300), { voiceId, signal: abort.signal, onProgress }),
      ).rejects.toThrow('cancelled by its owner');
    }
    expect(execFileSync('ps', ['-eo', 'args'], { encoding: 'utf8' })).not.toContain(dir);
  });

  it.each(['flite', 'espeak-ng'] as const)('says that %s was killed', async (program) => {
    const bin = await mkdtemp(join(dir, 'bin-'));
    const file = join(bin, 'dying');
    await writeFile(file, '#!/bin/sh\nkill -KILL $$\n');
    await chmod(file, 0o755);
    const dying: SpeechTools = {
      ...tools,
      flite: { file, voices: ['slt'] },
      espeak: { python: file, voices: new Set(['de']) },
    };
    await expect(
      say('Hello', { tools: dying, voiceId: program === 'flite' ? 'slt' : 'espeak-ng/de' }),
    ).rejects.toMatchObject({
      code: 'engine_interrupted',
      retryable: true,
      message: expect.stringMatching(new RegExp(`^${program} was killed from outside`)),
    });
  });
});

describe('the speech tools', () => {
  afterEach(() => void vi.unstubAllEnvs());

  it('are missing where neither synthesiser is on PATH', async () => {
    vi.stubEnv('PATH', '/nonexistent');
    expect(await findSpeechTools()).toEqual({
      available: false,
      reason: expect.stringMatching(/flite is not on PATH.*apt-get install flite espeak-ng/),
    });
  });

  it('do without the one that does not run', async () => {
    const bin = join(dir, 'half');
    await mkdir(bin);
    await writeFile(join(bin, 'flite'), '#!/bin/sh\nexit 3\n', { mode: 0o755 });
    vi.stubEnv('PATH', `${bin}:${process.env.PATH}`);
    const found = await findSpeechTools();
    expect(found).toMatchObject({ available: true, flite: undefined });
  });
});

it('reads sounds by their ends, line by line; what diphones leave out is the end of the last silence', () => {
  const phones = readDurations('pau:0.2 m:0.3 pau:0.5 \npau:0.2 b:0.4 pau:0.6 \n', 0.9);
  expect(phones.map(({ sound, start, end }) => [sound, +start.toFixed(3), +end.toFixed(3)])).toEqual([
    [undefined, 0, 0.2],
    ['m', 0.2, 0.3],
    [undefined, 0.3, 0.4],
    [undefined, 0.4, 0.6],
    ['b', 0.6, 0.8],
    [undefined, 0.8, 0.9],
  ]);
});

it.each([8_000, 16_000, 22_050])('brings a tone from %i Hz to another rate without changing it', (rate) => {
  const tone = (at: number, count: number) =>
    Int16Array.from({ length: count }, (_, i) =>
      Math.round(10_000 * Math.sin((2 * Math.PI * 1_000 * i) / at)),
    );
  const out = resample(tone(rate, rate / 5), rate, 48_000);
  expect(out.length).toBe(9_600);
  const wanted = tone(48_000, 9_600);
  const inner = Array.from({ length: 8_000 }, (_, i) =>
    Math.abs((out[i + 800] as number) - (wanted[i + 800] as number)),
  );
  expect(Math.max(...inner)).toBeLessThan(60);
});

describe('intonation', () => {
  const QUESTIONS = [
    'Are you coming with us tomorrow?',
    'Did you see the boats on the river?',
    'Is this the best you can do?',
    'Would you like some more coffee?',
    'Have they closed the shop already?',
  ];
  const STATEMENTS = [
    'We are coming with you tomorrow.',
    'I saw the boats on the river.',
    'This is the best that I can do.',
    'I would like some more coffee.',
    'They have closed the shop already.',
  ];

  /** @returns the pitch of the last 50 ms of the voice above its median, in semitones */
  async function ending(script: string, voiceId: string): Promise<number> {
    const { samples } = await say(script, { voiceId });
    const points = pitchOf(resample(samples, SAMPLE_RATE, 16_000), 16_000).map(({ hz }) => hz);
    const middle = (values: number[]) => values.toSorted((a, b) => a - b)[values.length >> 1] ?? Number.NaN;
    return 12 * Math.log2(middle(points.slice(-5)) / middle(points));
  }

  it.each(['slt', 'rms', 'awb'])('of %s rises in questions and falls in statements', async (voiceId) => {
    for (const question of QUESTIONS) expect(await ending(question, voiceId), question).toBeGreaterThan(1);
    for (const statement of STATEMENTS) expect(await ending(statement, voiceId), statement).toBeLessThan(-1);
  });

  it('falls in questions for more than yes or no', async () => {
    expect(await ending('Why are you here?', 'slt')).toBeLessThan(0);
  });

  it('does not move the sounds', async () => {
    const [asked, told] = [
      await say('It is a boat?', { voiceId: 'slt' }),
      await say('It is a boat.', { voiceId: 'slt' }),
    ];
    expect(asked.phones).toHaveLength(told.phones.length);
    expect(asked.seconds).toBeCloseTo(told.seconds, 1);
  });
});
