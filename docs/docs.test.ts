import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, normalize, relative } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ROOT, trackedFiles } from '../test/structure/workspaces.ts';

const MAX_LINES = 250;
const pages = trackedFiles().filter((path) => /\.md$/.test(path) && existsSync(join(ROOT, path)));
const text = (page: string) => readFileSync(join(ROOT, page), 'utf8');

/** A page without its code, where brackets are no links. */
const prose = (page: string) =>
  text(page)
    .replace(/^```[\s\S]*?^```/gm, '')
    .replace(/`[^`\n]*`/g, (code) => code.replace(/[[\]()]/g, ' '));

const links = (page: string) =>
  Array.from(prose(page).matchAll(/\]\(([^)\s]+)\)/g), ([, link = '']) => link).filter(
    (link) => !/^[a-z]+:/.test(link),
  );

/** The file of a link, and its part after `#`. */
function target(page: string, link: string): { path: string; anchor: string | undefined } {
  const [file = '', anchor] = link.split('#', 2);
  return { path: file === '' ? page : normalize(join(dirname(page), file)), anchor };
}

/** Anchors that a page offers: its headings as GitHub names them. */
function anchorsOf(page: string): Set<string> {
  const headings = text(page)
    .replace(/^```[\s\S]*?^```/gm, '')
    .matchAll(/^#{1,6} (.*)$/gm);
  return new Set(
    Array.from(headings, ([, heading = '']) =>
      heading
        .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
        .toLowerCase()
        .replace(/[^\p{L}\p{N}_\- ]/gu, '')
        .trim()
        .replaceAll(' ', '-'),
    ),
  );
}

it.each(pages)('every link of %s leads somewhere', (page) => {
  const broken = links(page).filter((link) => {
    const { path, anchor } = target(page, link);
    if (!existsSync(join(ROOT, path))) return true;
    return anchor !== undefined && /\.md$/.test(path) && !anchorsOf(path).has(anchor);
  });
  expect(broken).toEqual([]);
});

describe('pages', () => {
  it(`have at most ${MAX_LINES} lines`, () => {
    const long = pages.filter(
      (page) => /^(docs|reports)\//.test(page) && text(page).split('\n').length > MAX_LINES,
    );
    expect(long).toEqual([]);
  });

  it('are all reached from docs/README.md', () => {
    const reached = new Set<string>();
    const visit = (page: string) => {
      if (reached.has(page) || !pages.includes(page)) return;
      reached.add(page);
      for (const link of links(page)) visit(target(page, link).path);
    };
    visit('docs/README.md');
    expect(pages.filter((page) => page.startsWith('docs/') && !reached.has(page))).toEqual([]);
  });
});

describe('decisions', () => {
  const decisions = pages.filter((page) => /^docs\/adr\/\d{4}-/.test(page)).sort();

  it.each(decisions)('%s has its number, a status, a context, a decision and its consequences', (page) => {
    const number = relative('docs/adr', page).slice(0, 4);
    expect(text(page)).toMatch(new RegExp(`^# ${number}\\. `));
    const heads = Array.from(text(page).matchAll(/^## (.*)$/gm), ([, head]) => head);
    expect(heads).toEqual(expect.arrayContaining(['Status', 'Context', 'Decision', 'Consequences']));
    expect(text(page).split('\n').length).toBeLessThanOrEqual(80);
  });

  it('are numbered without gaps, and all in the list', () => {
    const numbers = decisions.map((page) => Number(relative('docs/adr', page).slice(0, 4)));
    expect(numbers).toEqual(numbers.map((_, i) => i + 1));
    const list = text('docs/adr/README.md');
    expect(decisions.filter((page) => !list.includes(`(${relative('docs/adr', page)})`))).toEqual([]);
  });
});
