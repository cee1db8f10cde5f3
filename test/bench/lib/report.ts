import { execFileSync } from 'node:child_process';
import { availableParallelism, cpus, platform, release, totalmem } from 'node:os';
import type { Row, Section } from './section.ts';

/** Returns one line about the machine that measured the figures. */
export function machineLine(): string {
  const model = cpus()[0]?.model.trim() || 'unknown processor';
  const memory = `${Math.round(totalmem() / 2 ** 30)} GiB`;
  return `${availableParallelism()} cores, ${model}, ${memory} memory, Node.js ${process.versions.node}, ${platform()} ${release()}, commit ${commit()}`;
}

function commit(): string {
  try {
    const options = { cwd: import.meta.dirname, encoding: 'utf8', stdio: 'pipe' } as const;
    const hash = execFileSync('git', ['rev-parse', '--short', 'HEAD'], options).trim();
    const changed = execFileSync('git', ['status', '--porcelain', '--untracked-files=no'], options).trim();
    return changed ? `${hash} with changes` : hash;
  } catch {
    return 'unknown';
  }
}

const COLUMNS: [keyof Row, string][] = [
  ['name', 'what'],
  ['ours', 'ours'],
  ['peer', 'peer or limit'],
  ['ratio', 'ratio'],
  ['goal', 'goal'],
  ['met', 'met'],
];

/** Formats a section as Markdown that also reads well in a terminal. */
export function formatSection({ title, rows, notes = [] }: Section): string {
  const cells = rows.map((row) => COLUMNS.map(([column]) => row[column].replaceAll('|', '/')));
  const head = COLUMNS.map(([, text]) => text);
  const widths = head.map((text, i) =>
    Math.max(3, length(text), ...cells.map((row) => length(row[i] ?? ''))),
  );
  const line = (row: string[]) =>
    `| ${row.map((cell, i) => cell + ' '.repeat((widths[i] ?? 0) - length(cell))).join(' | ')} |`;
  const rule = `|${widths.map((width) => '-'.repeat(width + 2)).join('|')}|`;
  const table = [line(head), rule, ...cells.map(line)].join('\n');
  const told = notes.map((note) => `- ${note}`).join('\n');
  return `## ${title}\n\n${table}\n${told ? `\n${told}\n` : ''}`;
}

const length = (text: string) => [...text].length;
