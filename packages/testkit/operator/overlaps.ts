import type { Ledger } from './fake-agent.ts';

/** Describes each pair of attempts of one job that ran at the same time. */
export function overlaps({ entries }: Ledger): string[] {
  const found: string[] = [];
  const byJob = Map.groupBy(entries, ({ uid }) => uid);
  for (const [uid, runs] of byJob) {
    const sorted = runs.toSorted((a, b) => a.from - b.from);
    for (const [i, run] of sorted.entries()) {
      const next = sorted[i + 1];
      if (next && next.from < run.to) {
        found.push(`${uid}: attempt ${run.attempt} on ${run.agent} and ${next.attempt} on ${next.agent}`);
      }
    }
  }
  return found;
}
