import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '@semblance/testkit/stack/stack-process';
import { describe, expect, test } from 'vitest';

/**
 * These tests read the test files and use no stack. Every sentence of the specification must name an existing test.
 */

/** Reasons why a sentence needs no test. */
const WITHOUT_TEST = ['explains', 'asks the caller', 'left open'];

const text = (path: string) => readFileSync(join(root, path), 'utf8');

/**
 * Returns the sentences of paragraphs and lists, and the rows of tables without their heads, each with its heading.
 */
function sentencesOf(markdown: string): string[] {
  const found: string[] = [];
  let heading = '';
  const lines = markdown.split('\n');
  const isRule = (line = '') => /^\|[-| ]+\|$/.test(line);
  for (const [i, line] of lines.entries()) {
    if (line.startsWith('#')) heading = line.replace(/^#+ /, '');
    else if (line.startsWith('|')) {
      if (!isRule(line) && !isRule(lines[i + 1])) found.push(`${heading}: ${line}`);
    } else if (line.trim() !== '')
      for (const sentence of line.replace(/^\d+\. /, '').split(/(?<=[.!?])\s+(?=[A-Z`])/))
        found.push(`${heading}: ${sentence}`);
  }
  return found;
}

interface Named {
  readonly sentence: string;
  readonly by: string;
}

function namedIn(list: string): Named[] {
  const named: Named[] = [];
  const sections = list.split(/^## /m).slice(1);
  for (const section of sections) {
    const heading = section.slice(0, section.indexOf('\n'));
    for (const [, sentence, by = ''] of section.matchAll(/^- (.*)\n {2}→ (.*)$/gm))
      named.push({ sentence: `${heading}: ${sentence}`, by });
  }
  return named;
}

/** Returns the titles of suites and tests in a file, as written there, without skipped ones. */
function titlesIn(source: string): Set<string> {
  const call = /(\b(?:test|it|describe)(?:\.\w+)*|[\])>])\(\s*(['"`])((?:\\.|(?!\2)[^\\])*)\2/g;
  const found = new Set<string>();
  for (const [, called = '', , title = ''] of source.matchAll(call))
    if (!/\.(skip|todo|fails)\b/.test(called)) found.add(title.replace(/\\(['"`])/g, '$1'));
  return found;
}

const named = namedIn(text('test/conformance/sentences.md'));

test('every sentence of the specification is in the list, and nothing else is', () => {
  const sentences = sentencesOf(text('test/conformance/specification.md'));
  expect(sentences.length).toBeGreaterThan(250);
  expect(named.map(({ sentence }) => sentence)).toEqual(sentences);
});

describe('each is named by a test that there is, or it is said why there is none', () => {
  const titles = new Map<string, Set<string>>();
  const has = (file: string, title: string) => {
    const path = file.includes('/') ? file : `test/conformance/${file}.test.ts`;
    if (!titles.has(path)) titles.set(path, titlesIn(text(path)));
    return titles.get(path)?.has(title);
  };

  test.each(named)('$sentence', ({ by }) => {
    if (WITHOUT_TEST.includes(by)) return;
    const [, file = '', title = ''] = /^([\w./-]+): (.*)$/.exec(by) ?? [];
    expect(file, by).not.toBe('');
    expect(has(file, title), by).toBe(true);
  });
});
