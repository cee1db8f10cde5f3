import { afterEach, describe, expect, it, vi } from 'vitest';
import { describeProgress, type Progress, progressPrinter } from './progress.ts';

const progress = (more: Partial<Progress>): Progress => ({
  what: 'kube-apiserver 1.36.3',
  step: 3,
  steps: 4,
  phase: 'compiling',
  done: 0,
  total: 2_000,
  elapsedMs: 0,
  ...more,
});

describe('describeProgress', () => {
  it.each<[Partial<Progress>, string]>([
    [
      { phase: 'downloading', done: 7, total: 0, elapsedMs: 4_000 },
      'Downloading the sources of kube-apiserver 1.36.3 (3 of 4): 7 modules, 4 s',
    ],
    [{ done: 10, elapsedMs: 6_000 }, 'Compiling kube-apiserver 1.36.3 (3 of 4): 10 of 2000 packages, 6 s'],
    [
      { done: 500, elapsedMs: 80_000 },
      'Compiling kube-apiserver 1.36.3 (3 of 4): 500 of 2000 packages, 1 min 20 s, about 4 min left',
    ],
    [
      { done: 1_800, elapsedMs: 240_000 },
      'Compiling kube-apiserver 1.36.3 (3 of 4): 1800 of 2000 packages, 4 min 0 s, about 30 s left',
    ],
    [
      { phase: 'linking', elapsedMs: 61_000, steps: 1, step: 1 },
      'Compiling the last of kube-apiserver 1.36.3, then linking: 1 min 1 s',
    ],
    [{ phase: 'built', elapsedMs: 300_000 }, 'Built kube-apiserver 1.36.3 (3 of 4) in 5 min 0 s'],
    [
      { phase: 'waiting', detail: 'another process (pid 7) is building it' },
      'Waiting for kube-apiserver 1.36.3 (3 of 4): another process (pid 7) is building it',
    ],
  ])('%o', (more, line) => {
    expect(describeProgress(progress(more))).toBe(line);
  });
});

describe('progressPrinter', () => {
  afterEach(() => void vi.restoreAllMocks());
  const printed = (isTTY: boolean, clock: number[]) => {
    let text = '';
    const stream = {
      isTTY,
      columns: 60,
      write: (chunk: string) => {
        text += chunk;
      },
    } as unknown as NodeJS.WriteStream;
    let now = 0;
    const report = progressPrinter(stream);
    vi.spyOn(Date, 'now').mockImplementation(() => now);
    for (const [index, at] of clock.entries()) {
      now = at;
      report(progress({ done: index + 1, elapsedMs: at }));
    }
    report(progress({ phase: 'built', elapsedMs: now }));
    return text;
  };

  it('rewrites one line of a terminal, never longer than it', () => {
    const text = printed(true, [0, 100, 200]);
    expect(text.match(/\r/g)).toHaveLength(4);
    expect(text.endsWith('\n')).toBe(true);
    for (const line of text.split('\r\u001B[2K')) expect(line.trimEnd().length).toBeLessThan(60);
  });

  it('elsewhere writes a line at once, every ten seconds, and at the end', () => {
    const lines = printed(false, [0, 5_000, 9_999, 10_000, 15_000]).trimEnd().split('\n');
    expect(lines.map((line) => /: (\d+) of|Built/.exec(line)?.[1] ?? 'built')).toEqual(['1', '4', 'built']);
  });
});
