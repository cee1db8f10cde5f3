import { describe, expect, it } from 'vitest';
import { plainScript } from './speech-markup.ts';

describe('plainScript', () => {
  it.each([
    ['plain text', 'Good morning, everybody.', 'Good morning, everybody.'],
    ['signs that are no markup', 'I <3 you & 2 < 3 &amp; a <b', 'I <3 you & 2 < 3 &amp; a <b'],
    ['a whole document', '<?xml version="1.0"?><speak>Hello <!-- not this -->there.</speak>', 'Hello there.'],
    ['emphasis', 'I <emphasis level="strong">mean</emphasis> it.', 'I mean it.'],
    ['a short break', 'One<break time="300ms"/>two', 'One, two'],
    ['a long break', 'One<break time="1.5s"/>two', 'One. two'],
    ['a strong break', 'One<break strength="x-strong"/>two', 'One. two'],
    ['no break', 'One<break strength="none"/>two', 'One two'],
    ['a break after a comma', 'One,<break/> two', 'One,  two'],
    ['paragraphs and sentences', '<p><s>One</s><s>Two!</s></p>', 'One. Two!'],
    [
      'another word for something',
      'The <sub alias="World Wide Web Consortium">W3C</sub>.',
      'The World Wide Web Consortium.',
    ],
    ['spelling', '<say-as interpret-as="characters">NASA</say-as>', 'N A S A'],
    ['digits', "Call <say-as interpret-as='telephone'>030 12</say-as>.", 'Call 0 3 0 1 2.'],
    ['a date as it is', '<say-as interpret-as="date">1 May</say-as>', '1 May'],
    ['entities', '<speak>Q&amp;A &lt;b&gt; &#233; &#xe9; &#0; &nope;</speak>', 'Q&A <b> é é  &nope;'],
    ['one within another', '<sub alias="x">a<say-as interpret-as="characters">bc</say-as></sub>d', 'xd'],
    ['a tag over lines', 'a<break\n  time="10ms"\n/>b', 'a, b'],
  ])('turns %s into text', (_, script, text) => {
    expect(plainScript(script)).toEqual({ text });
  });

  it.each([
    ['<prosody rate="slow">Hi</prosody>', /<prosody>/],
    ['Hi <audio src="x"/>', /<audio>/],
    ['</voice>', /<voice>/],
    ['<sub alias="x">y', /does not close <sub>/],
    ['y</sub>', /closes <sub>, which is not open/],
    ['<sub alias="x"><say-as>y</sub></say-as>', /closes <sub>/],
  ])('refuses %s by its name', (script, fault) => {
    expect(plainScript(script)).toEqual({ fault: expect.stringMatching(fault) });
  });

  it('takes time that grows with the length alone', () => {
    for (const part of ['<', '<a ', '<a b="', '<!--', '<a b=c ', '&#', '<break/>', '<sub alias="a">'])
      expect(plainScript(part.repeat(5_000 / part.length))).toBeDefined();
  });
});
