import { expect, test } from 'vitest';
import { tableOf } from './table.ts';

test('a table has headings, columns of one width, numbers to the right, and nothing at ends of lines', () => {
  const rows = [
    { name: 'Ada', balance: 5, note: 'x' },
    { name: 'Grace Hopper', balance: -12.25, note: null },
    { name: '', balance: null, note: { a: 1 } },
  ];
  expect(tableOf(rows, ['name', 'balance', 'note'])).toBe(
    [
      'name          balance  note',
      'Ada                 5  x',
      'Grace Hopper   -12.25  -',
      '-                   -  {"a":1}',
      '',
    ].join('\n'),
  );
});

test('without rows it says so, and no text can move the cursor', () => {
  expect(tableOf([], ['a'])).toBe('none\n');
  expect(tableOf([{ a: 'x\u001b[2J\ny' }], ['a'])).toBe('a\nx\\u001b[2J\\u000ay\n');
});
