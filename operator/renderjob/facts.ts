import type { AttemptStatus } from '#proto/semblance/agent/v1/agent.ts';
import type { AttemptFacts } from './types.ts';

interface Entry {
  /** The process that was asked, or that reported. */
  readonly agent: string;
  readonly incarnation: string;
  facts: AttemptFacts;
}

/** What this process has learnt of attempts. Only a help: all of it can be learnt again. */
export interface FactStore {
  /** Of that attempt on that process; empty when it is of another. */
  get(uid: string, attempt: number, agent: string, incarnation: string): AttemptFacts;
  learn(uid: string, attempt: number, agent: string, incarnation: string, facts: AttemptFacts): void;
  report(agent: string, incarnation: string, report: AttemptStatus): void;
  /**
   * The process told everything it holds: what it does not name it does not run.
   * @returns the jobs of which something was known or is known now
   */
  snapshot(agent: string, incarnation: string, reports: readonly AttemptStatus[]): Set<string>;
  /** Attempts the process was last heard to run. */
  runningOn(agent: string, incarnation: string): { readonly uid: string; readonly attempt: number }[];
  /** Forgets all attempts of a job, or those before `before`. */
  forget(uid: string, before?: number): void;
  /** Attempts of a job of which something is known. */
  of(uid: string): { readonly attempt: number; readonly agent: string; readonly incarnation: string }[];
}

export function createFactStore(): FactStore {
  const jobs = new Map<string, Map<number, Entry>>();

  function entry(uid: string, attempt: number, agent: string, incarnation: string): Entry {
    const attempts = jobs.get(uid) ?? new Map<number, Entry>();
    jobs.set(uid, attempts);
    const known = attempts.get(attempt);
    if (known?.agent === agent && known.incarnation === incarnation) return known;
    const made = { agent, incarnation, facts: {} };
    attempts.set(attempt, made);
    return made;
  }

  const store: FactStore = {
    get(uid, attempt, agent, incarnation) {
      const known = jobs.get(uid)?.get(attempt);
      return known?.agent === agent && known.incarnation === incarnation ? known.facts : {};
    },
    learn(uid, attempt, agent, incarnation, facts) {
      const known = entry(uid, attempt, agent, incarnation);
      known.facts = { ...known.facts, ...facts };
    },
    report(agent, incarnation, report) {
      const { jobUid, attempt } = report.ref ?? {};
      if (!jobUid || !attempt) return;
      // An end is final: a late report of progress does not undo it.
      const before = store.get(jobUid, attempt, agent, incarnation).report;
      if (before && before.state >= 2 && report.state < 2) return;
      const { heardAt = Date.now() } = store.get(jobUid, attempt, agent, incarnation);
      store.learn(jobUid, attempt, agent, incarnation, { report, heardAt });
    },
    snapshot(agent, incarnation, reports) {
      const touched = new Set<string>();
      const named = new Set(reports.map(({ ref }) => `${ref?.jobUid}/${ref?.attempt}`));
      for (const [uid, attempts] of jobs) {
        for (const [attempt, known] of attempts) {
          if (known.agent !== agent || known.incarnation !== incarnation) continue;
          touched.add(uid);
          if (named.has(`${uid}/${attempt}`)) continue;
          const { report } = known.facts;
          known.facts = {
            ...known.facts,
            startAccepted: undefined,
            heardAt: undefined,
            report: report && report.state >= 2 ? report : undefined,
          };
        }
      }
      for (const report of reports) {
        store.report(agent, incarnation, report);
        if (report.ref) touched.add(report.ref.jobUid);
      }
      return touched;
    },
    runningOn(agent, incarnation) {
      const found: { uid: string; attempt: number }[] = [];
      for (const [uid, attempts] of jobs) {
        for (const [attempt, known] of attempts) {
          const here = known.agent === agent && known.incarnation === incarnation;
          if (here && known.facts.report?.state === 1 && !known.facts.stopped) found.push({ uid, attempt });
        }
      }
      return found;
    },
    forget(uid, before = Number.POSITIVE_INFINITY) {
      const attempts = jobs.get(uid);
      if (!attempts) return;
      for (const attempt of [...attempts.keys()]) if (attempt < before) attempts.delete(attempt);
      if (attempts.size === 0) jobs.delete(uid);
    },
    of: (uid) =>
      [...(jobs.get(uid) ?? [])].map(([attempt, { agent, incarnation }]) => ({
        attempt,
        agent,
        incarnation,
      })),
  };
  return store;
}
