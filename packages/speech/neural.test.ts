/** @module-tag speech */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { piperFile } from '@semblance/testkit/engine-onnx/tiny-piper';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { phonesOf, sentencesOf } from './neural.ts';
import { speakScript } from './speech.ts';
import type { NeuralVoice, SpeechTools } from './speech-tools.ts';
import { findSpeechTools } from './tools.ts';

const RATE = 22_050;
const HOP = 256;
const ids = new Map(Object.entries(piperFile().phoneme_id_map as Record<string, number[]>));
const names = new Map([...ids].map(([symbol, [id]]) => [id, symbol]));

let tools: SpeechTools;
let dir: string;

beforeAll(async () => {
  const found = await findSpeechTools();
  if (!found.available) throw new Error(found.reason);
  tools = found;
  dir = await mkdtemp(join(tmpdir(), 'semblance-neural-'));
});

afterAll(() => rm(dir, { recursive: true, force: true }));

/** A voice whose phonemes last four frames each, that keeps what it was given. */
function voiceOf(said: string[], more: Partial<NeuralVoice> = {}): NeuralVoice {
  return {
    name: 'my-voice',
    language: 'en-us',
    espeak: 'en-us',
    sounding: 'man',
    speakers: new Map(),
    sampleRate: RATE,
    phonemeIds: ids,
    run: async (phonemes, speaker) => {
      said.push(`${speaker}:${phonemes.map((id) => names.get(id)).join('')}`);
      const samples = Float32Array.from({ length: 4 * HOP * phonemes.length }, (_, i) => Math.sin(i / 40));
      return { samples, frames: new Float32Array(phonemes.length).fill(4) };
    },
    ...more,
  };
}

async function say(voice: NeuralVoice, script: string, voiceId?: string) {
  const path = join(await mkdtemp(join(dir, 'say-')), 'out.wav');
  const signal = new AbortController().signal;
  const spoken = await speakScript({
    script,
    voiceId,
    path,
    directory: dir,
    tools: { ...tools, neural: [voice] },
    signal,
  });
  return { ...spoken, file: await readFile(path) };
}

describe('a voice that is a model', () => {
  it('is given the phonemes of each sentence, as Piper gives them', async () => {
    const said: string[] = [];
    const { voice, phones } = await say(voiceOf(said), 'Hello, Bob. Why?');
    expect(voice).toBe('my-voice');
    expect(said).toEqual(['0:^_h_ə_l_ˈ_o_ʊ_,_ _b_ˈ_ɑ_ː_b_._$', '0:^_w_ˈ_a_ɪ_?_$']);
    expect(phones.flatMap(({ sound }) => sound ?? []).join(' ')).toBe('hh ax l ow b aa b w ay');
  });

  it('tells when its sounds are heard, without gaps', async () => {
    const { phones, seconds } = await say(voiceOf([]), 'Hello, Bob. Why?');
    let last = 0;
    for (const { start, end } of phones) {
      expect(start).toBeCloseTo(last, 6);
      last = end;
    }
    expect(last).toBeCloseTo(seconds, 6);
    // After the lead: the start and its padding are silent, then h has its padding and itself.
    const unit = (4 * HOP) / RATE;
    const [first] = phones.filter(({ sound }) => sound === 'hh');
    expect(first?.start).toBeCloseTo(0.2 + unit, 6);
    expect(first?.end).toBeCloseTo(0.2 + 3 * unit, 6);
  });

  it('speaks with the speaker that is named', async () => {
    const said: string[] = [];
    const voice = voiceOf(said, {
      speakers: new Map([
        ['ann', 0],
        ['bob', 7],
      ]),
    });
    expect((await say(voice, 'Why?', 'my-voice/bob')).voice).toBe('my-voice/bob');
    expect(said).toEqual(['7:^_w_ˈ_a_ɪ_?_$']);
    await expect(say(voice, 'Why?', 'my-voice/eve')).rejects.toThrow(
      'There is no voice "my-voice/eve" (voice_id). There are my-voice (en-us; my-voice/<speaker> for 2 speakers, such as ann), ',
    );
  });

  it('leaves letters that it cannot read to other voices', async () => {
    const said: string[] = [];
    const { otherVoices } = await say(voiceOf(said), 'Hello. Привет!');
    expect(said).toEqual(['0:^_h_ə_l_ˈ_o_ʊ_._$']);
    expect(otherVoices).toEqual(['espeak-ng/ru']);
  });

  it('fails where its frames do not fill its sound', async () => {
    const voice = voiceOf([], {
      run: async (phonemes) => ({
        samples: new Float32Array(1_001),
        frames: new Float32Array(phonemes.length).fill(4),
      }),
    });
    await expect(say(voice, 'Why?')).rejects.toThrow(
      'The voice my-voice says 13 durations for 13 phonemes, which do not fill its 1001 samples.',
    );
  });

  it('stops with its job', async () => {
    const voice = voiceOf([], {
      run: (_phonemes, _speaker, signal) => Promise.reject(signal.reason ?? new Error('not aborted')),
    });
    await expect(say(voice, 'Why?')).rejects.toThrow('not aborted');
  });
});

describe('the sentences of a text', () => {
  it.each([
    [
      [
        ['həlˈoʊ', ','],
        ['bˈɑːb', '.'],
      ],
      ['həlˈoʊ, bˈɑːb.'],
    ],
    [
      [
        ['a', '?'],
        ['b', ''],
      ],
      ['a?', 'b.'],
    ],
    [
      [
        ['a', '—'],
        ['b', '…'],
      ],
      ['a, b.'],
    ],
    [
      [
        ['a', '。'],
        ['b', '？'],
      ],
      ['a.', 'b?'],
    ],
    [[['ˈɛtʌ (en)wˈɪndəʊz(ru)', '.']], ['ˈɛtʌ wˈɪndəʊz.']],
    [
      [
        ['', '.'],
        [' ', ''],
      ],
      [],
    ],
    [[['a', ',']], ['a, ']],
  ] as const)('%j', (clauses, sentences) => {
    expect(sentencesOf(clauses).map((symbols) => symbols.join(''))).toEqual(sentences);
  });

  it('have marks as symbols of their own, unless the voice has them composed', () => {
    expect(sentencesOf([['õ', '.']])).toEqual([['o', '\u0303', '.']]);
    expect(sentencesOf([['c\u0327', '.']], { composed: true })).toEqual([['ç', '.']]);
  });

  it('are cut at a space where the voice takes no more at once', () => {
    const cut = (text: string, longest: number): string[] =>
      sentencesOf([[text, '.']], { longest }).map((symbols) => symbols.join(''));
    expect(cut('ab cd efg', 6)).toEqual(['ab cd', 'efg.']);
    expect(cut('ab cd', 6)).toEqual(['ab cd.']);
    expect(cut('abcdefgh', 3)).toEqual(['abc', 'def', 'gh.']);
  });
});

describe('the sounds of a sentence', () => {
  const sounds = (text: string): string =>
    phonesOf(
      [...text].map((symbol) => ({ symbol, count: 1 })),
      new Float32Array(text.length).fill(1),
      1,
    )
      .map(({ sound, start, end }) => `${sound ?? '-'} ${start}-${end}`)
      .join(', ');

  it.each([
    ['pˈaɪ', 'p 0-1, ay 1-4'],
    ['tʃiː', 'ch 0-2, iy 2-4'],
    ['ma,b', 'm 0-1, aa 1-2, - 2-3, b 3-4'],
    ['a ˈb', 'aa 0-1, - 1-2, b 2-4'],
    ['^a.$', '- 0-1, aa 1-2, - 2-4'],
  ])('%s', (text, expected) => {
    expect(sounds(text)).toBe(expected);
  });

  it('begin within a short space before them', () => {
    const symbols = [...'a b'].map((symbol) => ({ symbol, count: 1 }));
    expect(phonesOf(symbols, [1, 1, 1], 0.05)).toEqual([
      { sound: 'aa', start: 0, end: 0.05 },
      { sound: 'b', start: 0.05, end: expect.closeTo(0.15) },
    ]);
  });
});
