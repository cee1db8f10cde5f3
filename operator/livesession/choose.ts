import type { AgentView } from '../agents/view.ts';

/** An agent as the allocation sees it. */
export interface Candidate extends Pick<AgentView, 'name' | 'incarnation' | 'address' | 'live'> {
  /**
   * `ready`: takes sessions. `soon`: cannot be reached this moment, though it lives. `no`: drains, or is gone.
   */
  readonly outlook: 'ready' | 'soon' | 'no';
}

/**
 * The agent that gets the next session: of those that are ready and have a free slot, the one with the most of them,
 * and of equals the first by name.
 * @param used slots taken on an agent
 * @param barred agents that are not to be asked
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
 * Returns what may be hoped for when nobody has a free slot: `wait` for one that frees or an agent that comes back,
 * `warming` when all there is are models that are being warmed up, `none`.
 */
export function outlookOf(
  candidates: Iterable<Candidate>,
  capability: string,
): { readonly hope: boolean; readonly warming: boolean } {
  let hope = false;
  let warming = false;
  for (const { outlook, live } of candidates) {
    const offered = live.get(capability);
    if (outlook === 'no' || !offered) continue;
    if (offered.slots > 0) hope = true;
    if (offered.warming) warming = true;
  }
  return { hope, warming };
}
