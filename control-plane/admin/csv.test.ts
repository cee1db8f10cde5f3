import { expect, test } from 'vitest';
import { csvCell, csvLine } from './csv.ts';

test.each<[string, unknown, string]>([
  ['text', 'plain text', 'plain text'],
  ['a comma', 'a,b', '"a,b"'],
  ['quotes', 'say "no"', '"say ""no"""'],
  ['spaces at the ends', ' a ', '" a "'],
  ['a line break, which ends no row', 'a\r\nb', 'a\\u000d\\u000ab'],
  ['nothing', null, ''],
  ['nothing at all', undefined, ''],
  ['a number below zero', -3.5, '-3.5'],
  ['a yes', true, 'true'],
  ['an object', { a: 'b,c' }, '"{""a"":""b,c""}"'],
  ['a formula', '=1+1', "'=1+1"],
  ['a formula that asks the net', '=HYPERLINK("http://x")', `"'=HYPERLINK(""http://x"")"`],
  ['a plus', '+49 30', "'+49 30"],
  ['a minus', '-1', "'-1"],
  ['an at', '@SUM(A1)', "'@SUM(A1)"],
  ['a full-width one', '＝1', "'＝1"],
  ['one after spaces', '  =1', "'  =1"],
  ['one after a tab', '\t=1', String.raw`'\u0009=1`],
  ['one where another separator would begin a cell', 'a;=1', `"a;'=1"`],
  ['one behind a quote', '"=1', `"'""=1"`],
])('%s', (_what, value, cell) => {
  expect(csvCell(value)).toBe(cell);
});

test('characters that would command a terminal are written out', () => {
  expect(csvCell('a\u001b[2Jb\u202e')).toBe('a\\u001b[2Jb\\u202e');
});

test('a line has as many cells as values, whatever is in them', () => {
  const values = ['a,b', '"', ';', '\n', '=x', null, 1];
  // The plainest reader of RFC 4180 there is.
  const cells: string[] = [];
  const line = `${csvLine(values)},`;
  for (const [, quoted, plain] of line.matchAll(/(?:"((?:[^"]|"")*)"|([^,"]*)),/g))
    cells.push(quoted?.replaceAll('""', '"') ?? plain ?? '');
  expect(cells).toEqual(['a,b', '"', ';', '\\u000a', "'=x", '', '1']);
});
