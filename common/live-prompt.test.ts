import { describe, expect, it } from 'vitest';
import { DEFAULT_CHARACTER, DEFAULT_LIVE_PROMPT, readPrompt } from './live-prompt.ts';

const KEY = 'api/up-06e2tq7pzb1hyw1y8c2t7xk4d0';
const OTHER_KEY = 'api/up-06e2tq7pzb1hyw1y8c2t7xk4d1';
const character = (name: string) => ({ kind: 'character', name });
const upload = { kind: 'upload', fileKey: KEY };
const NOT_UNDERSTOOD = /^Your own face is kept: the prompt was not understood\./;
const TWO = /names more than one face/;

describe('a prompt', () => {
  it.each([
    ['the default', DEFAULT_LIVE_PROMPT],
    [
      'the default, in another case and without its full stop',
      `  ${DEFAULT_LIVE_PROMPT.toUpperCase()} `.replace('.', ''),
    ],
    ['nothing', undefined],
    ['null', null],
    ['nothing but spaces and marks that are not seen', ' \u200b\ufeff\t\n '],
  ])('%s asks for the default character', (_what, prompt) => {
    expect(readPrompt(prompt)).toEqual(character(DEFAULT_CHARACTER));
  });

  it.each([
    'character: admiral',
    'Character:ADMIRAL',
    'character : “Admiral”.',
    'character=admiral',
    'ｃｈａｒａｃｔｅｒ：ａｄｍｉｒａｌ',
    'Good morning! I want another face today; character: admiral, if you can.',
    '把我的脸换掉 character: admiral 谢谢 🙏',
    'become the admiral',
    'Become the Admiral!!!',
    'please become “the admiral”, please',
    'become\u0000the\u0007 admiral',
    'be\u200bcome the ad\u00admiral',
    'Be an admiral',
    'play the character "admiral"',
    'make me look like the admiral',
    'Make me the admiral.',
    'turn me into an admiral',
    'Transform my face into the face of the admiral',
    "I'd like to look like the admiral",
    'Could you please swap my face with the admiral?',
    'Replace the face of the person in view with the admiral.',
    'as the admiral character',
    'character: admiral. Yes, character: Admiral',
  ])('%j asks for the admiral', (prompt) => {
    expect(readPrompt(prompt)).toEqual(character('admiral'));
    expect(readPrompt(prompt, ['admiral', 'astronaut'])).toEqual(character('admiral'));
  });

  it('joins the words of a name as ids have them', () => {
    expect(readPrompt('Become the Old Sea Captain')).toEqual(character('old-sea-captain'));
  });

  it.each([
    KEY,
    `“${KEY}”`,
    `Use the face in ${KEY}.`,
    `Use the face in ${KEY}, please; nothing else.`,
    `(${KEY})`,
    `face_key=${KEY}`,
    `Faites-moi ressembler à la photo «${KEY}» !`,
    `顔を${' '}${KEY} にして`,
    `${KEY} and again ${KEY}...`,
    `api/up-06e2tq7\u200bpzb1hyw1y8c2t7xk4d0`,
    `${'blah '.repeat(390)}${KEY}`,
  ])('%j asks for the uploaded face', (prompt) => {
    expect(readPrompt(prompt)).toEqual(upload);
  });

  it.each<[string, string | RegExp, RegExp]>([
    ['another wish', 'Give the person a beard.', NOT_UNDERSTOOD],
    ['another language', 'Mach mich zum Admiral', NOT_UNDERSTOOD],
    ['junk', '\ud83d\ufffd%00<script>{{}}\\x', NOT_UNDERSTOOD],
    ['more than a name', 'become the admiral but keep my glasses and my hat', NOT_UNDERSTOOD],
    ['no name', 'character:', NOT_UNDERSTOOD],
    ['a verb alone', 'become the', NOT_UNDERSTOOD],
    ['an address that ends like a key', `https://example.com/files/${KEY}?signature=x`, NOT_UNDERSTOOD],
    ['a key within a word', `my${KEY}`, NOT_UNDERSTOOD],
    ['a key in capitals', KEY.toUpperCase(), NOT_UNDERSTOOD],
    ['a key that climbs', 'api/../../etc/passwd', NOT_UNDERSTOOD],
    ['a key without an end', 'api/', NOT_UNDERSTOOD],
    ['a key that is too long', `api/${'k'.repeat(600)}`, NOT_UNDERSTOOD],
    ['a name in letters that no id has', 'character: адмирал', /there is no such character/],
    ['two keys', `${KEY} or ${OTHER_KEY}`, TWO],
    ['two characters', 'character: admiral, character: astronaut', TWO],
    ['a key and a character', `character: admiral ${KEY}`, TWO],
    ['more than 2,000 characters', `character: admiral ${'x'.repeat(2000)}`, /longer than 2,000 characters/],
  ])('with %s keeps the own face, and says why', (_what, prompt, reason) => {
    const look = readPrompt(String(prompt));
    expect(look).toEqual({
      kind: 'own',
      reason: expect.stringMatching(reason),
      fault: expect.stringMatching(/^\p{Lu}.*\.$/u),
    });
    // The reason is a sentence for people that repeats nothing of the prompt.
    expect(look.kind === 'own' && look.reason).toMatch(/^Your own face is kept: [\p{L}\p{N} ,;:._“”]+\.$/u);
  });

  it('keeps the own face without a fault when the prompt asks for it', () => {
    const reason = 'Your own face is kept: the prompt asks for it.';
    expect(readPrompt('Keep my own face.')).toEqual({ kind: 'own', reason });
  });

  it('counts 2,000 characters as people do', () => {
    const prompt = `character: admiral ${'😀'.repeat(1981)}`;
    expect(readPrompt(prompt)).toEqual(character('admiral'));
    expect(readPrompt(`${prompt}😀`)).toMatchObject({ kind: 'own' });
  });

  it('for a character that there is not names those there are', () => {
    const look = readPrompt('become the pirate', new Set(['admiral', 'astronaut']));
    expect(look).toEqual({
      kind: 'own',
      reason:
        'Your own face is kept: there is no such character. Write “character: ” and the name of one: admiral, astronaut.',
      fault: 'There is no such character. Write “character: ” and the name of one: admiral, astronaut.',
    });
  });

  it('is read in no time however it is made up', () => {
    for (const piece of ['. ', ' ,', 'a ', 'api/', 'character ', 'character:', '"', 'the face of '])
      expect(readPrompt(piece.repeat(2000 / piece.length), ['admiral'])).toMatchObject({ kind: 'own' });
  });
});
