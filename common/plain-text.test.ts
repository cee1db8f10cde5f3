import { anyText } from '@semblance/testkit/common/any-text';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { escapeCommanding, isPlainText } from './plain-text.ts';

test('what a terminal would obey is no plain text; what people write is', () => {
  for (const text of ['', 'Ada Löv', 'عَدا', '日本 👩‍👩‍👧', 'a\u200cb', 'invoice #1 — 5 €'])
    expect(isPlainText(text), text).toBe(true);
  for (const text of [
    '\0',
    'a\tb',
    'a\nb',
    '\u001b[2J',
    '\u009b2J',
    '\u007f',
    '\u2028',
    'x\u202ey',
    '\u2066',
  ])
    expect(isPlainText(text), JSON.stringify(text)).toBe(false);
});

test('escaped, any text is plain, and JSON still means the same', () => {
  expect(escapeCommanding('a\u001b[2Jb\u009b\n')).toBe('a\\u001b[2Jb\\u009b\\u000a');
  fc.assert(
    fc.property(fc.oneof(fc.string({ unit: 'binary' }), anyText()), (text) => {
      expect(isPlainText(escapeCommanding(text))).toBe(true);
      const json = JSON.stringify({ [text]: text });
      expect(JSON.parse(escapeCommanding(json))).toEqual(JSON.parse(json));
      if (isPlainText(text)) expect(escapeCommanding(text)).toBe(text);
    }),
  );
});
