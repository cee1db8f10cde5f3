import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { signalGroup } from '@semblance/common/process/child';
import { identify, isAlive, type ProcessIdentity } from './identity.ts';

/**
 * Records the children of a stack on disk, so that the next start can end them if the supervisor and its guard were
 * both killed.
 */
export function recordChildren(file: string, pids: number[]): void {
  const children = pids.flatMap((pid) => identify(pid) ?? []);
  // The file is not flushed, because after a crash of the whole machine there are no processes to end.
  writeFileSync(`${file}.unfinished`, JSON.stringify(children), { mode: 0o600 });
  renameSync(`${file}.unfinished`, file);
}

/**
 * Ends what a former supervisor left behind.
 *
 * @returns the pids that were ended
 */
export async function endLeftovers(file: string, graceMs: number): Promise<number[]> {
  let recorded: ProcessIdentity[];
  try {
    recorded = JSON.parse(readFileSync(file, 'utf8')) as ProcessIdentity[];
  } catch {
    return [];
  }
  const leftovers = recorded.filter(isAlive);
  for (const { pid } of leftovers) signalGroup(pid, 'SIGTERM');
  for (const end = Date.now() + graceMs; leftovers.some(isAlive) && Date.now() < end; ) await delay(50);
  for (const { pid } of leftovers.filter(isAlive)) signalGroup(pid, 'SIGKILL');
  // Their ports and files are needed next, and even SIGKILL takes a moment.
  for (const end = Date.now() + 5_000; leftovers.some(isAlive) && Date.now() < end; ) await delay(10);
  return leftovers.map(({ pid }) => pid);
}
