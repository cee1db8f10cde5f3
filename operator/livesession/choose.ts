import type { AgentView } from '../agents/view.ts';

/** An agent as the allocation sees it. */
export interface Candidate extends Pick<AgentView, 'name' | 'incarnation' | 'address' | 'live'> {
  /** `ready`: takes sessions. `soon`: alive, but unreachable at the moment. `no`: draining or gone. */
  readonly outlook: 'ready' | 'soon' | 'no';
}

/**
 * Returns the next session's agent: the ready one with the most free slots, the first by name among equals;
 * undefined when none is free.
 * @param used returns the slots taken on an agent
 * @param barred returns whether an agent must not be asked
 */
export function choose(
  candidates: Iterable<Candidate>,
  capability: string,
  used: (candidate: Candidate) => number,
  barred: (candidate: Candidate) => boolean,
): Candidate | undefined {
  let best: Candidate | undefined;
  let most = 0;
  for (const candidate of candidates) {
    const offered = candidate.live.get(capability);
    if (candidate.outlook !== 'ready' || !offered) continue;
    const free = offered.slots - used(candidate);
    if (free < 1 || free < most || barred(candidate)) continue;
    if (free === most && best && best.name <= candidate.name) continue;
    best = candidate;
    most = free;
  }
  return best;
}

/**
 * Returns the prospects when no slot is free. `hope`: one may free, or an agent come back. `warming`: models are
 * warming up.
 */
export function prospects(
  candidates: Iterable<Candidate>,
  capability: string,
): { readonly mayFree: boolean; readonly warming: boolean } {
  let mayFree = false;
  let warming = false;
  for (const { outlook, live } of candidates) {
    const offered = live.get(capability);
    if (outlook === 'no' || !offered) continue;
    if (offered.slots > 0) mayFree = true;
    if (offered.warming) warming = true;
  }
  return { mayFree, warming };
}
