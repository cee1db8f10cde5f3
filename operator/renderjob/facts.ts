import type { AttemptStatus } from '@semblance/proto/semblance/agent/v1/agent';
import { isTerminal } from './attempt-state.ts';
import type { AttemptFacts } from './types.ts';

interface Entry {
  /** Agent process that was asked, or that reported. */
  readonly agent: string;
  readonly incarnation: string;
  facts: AttemptFacts;
}

interface Known extends Entry {
  readonly uid: string;
  readonly attempt: number;
}

/** What this process has learnt of attempts. Only an aid: all of it can be learnt again. */
export interface FactStore {
  /** Returns the facts of that attempt on that process; empty when it is on another. */
  get(uid: string, attempt: number, agent: string, incarnation: string): AttemptFacts;
  learn(uid: string, attempt: number, agent: string, incarnation: string, facts: AttemptFacts): void;
  report(agent: string, incarnation: string, report: AttemptStatus): void;
  /**
   * Records everything that the process holds: it runs nothing else.
   * @returns jobs known there before or after
   */
  snapshot(agent: string, incarnation: string, reports: readonly AttemptStatus[]): Set<string>;
  /** Returns the attempts that the process last reported as running. */
  runningOn(agent: string, incarnation: string): { readonly uid: string; readonly attempt: number }[];
  /** Forgets all attempts of a job, or those before `before`. */
  forget(uid: string, before?: number): void;
  /** Returns the attempts of a job that have facts. */
  of(uid: string): { readonly attempt: number; readonly agent: string; readonly incarnation: string }[];
}

export function createFactStore(): FactStore {
  const jobs = new Map<string, Map<number, Entry>>();
  /** The same entries by agent. */
  const agents = new Map<string, Map<string, Known>>();
  const keyOf = (uid: string, attempt: number) => `${uid}/${attempt}`;

  function drop(uid: string, attempt: number): void {
    const attempts = jobs.get(uid);
    const agent = attempts?.get(attempt)?.agent;
    if (!attempts || agent === undefined) return;
    attempts.delete(attempt);
    if (attempts.size === 0) jobs.delete(uid);
    const known = agents.get(agent);
    known?.delete(keyOf(uid, attempt));
    if (known?.size === 0) agents.delete(agent);
  }

  function entry(uid: string, attempt: number, agent: string, incarnation: string): Entry {
    const known = jobs.get(uid)?.get(attempt);
    if (known?.agent === agent && known.incarnation === incarnation) return known;
    drop(uid, attempt);
    const made: Known = { uid, attempt, agent, incarnation, facts: {} };
    const attempts = jobs.get(uid) ?? new Map<number, Entry>();
    jobs.set(uid, attempts.set(attempt, made));
    const here = agents.get(agent) ?? new Map<string, Known>();
    agents.set(agent, here.set(keyOf(uid, attempt), made));
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
      if (before && isTerminal(before.state) && !isTerminal(report.state)) return;
      const { heardAt = Date.now() } = store.get(jobUid, attempt, agent, incarnation);
      store.learn(jobUid, attempt, agent, incarnation, { report, heardAt });
    },
    snapshot(agent, incarnation, reports) {
      const touched = new Set<string>();
      const named = new Set(reports.map(({ ref }) => keyOf(ref?.jobUid ?? '', ref?.attempt ?? 0)));
      for (const [key, known] of agents.get(agent) ?? []) {
        if (known.incarnation !== incarnation) continue;
        touched.add(known.uid);
        if (named.has(key)) continue;
        const { report } = known.facts;
        known.facts = {
          ...known.facts,
          startAccepted: undefined,
          heardAt: undefined,
          report: report && isTerminal(report.state) ? report : undefined,
        };
      }
      for (const report of reports) {
        store.report(agent, incarnation, report);
        if (report.ref) touched.add(report.ref.jobUid);
      }
      return touched;
    },
    runningOn(agent, incarnation) {
      const found: { uid: string; attempt: number }[] = [];
      for (const { uid, attempt, incarnation: of, facts } of agents.get(agent)?.values() ?? []) {
        if (of === incarnation && facts.report?.state === 1 && !facts.stopped) found.push({ uid, attempt });
      }
      return found;
    },
    forget(uid, before = Number.POSITIVE_INFINITY) {
      for (const attempt of [...(jobs.get(uid)?.keys() ?? [])]) if (attempt < before) drop(uid, attempt);
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
