import { run } from '@semblance/common/process/run';

/** Longest time of a query, in ms. The program loads the driver when nothing else keeps it loaded. */
const QUERY_MS = 15_000;

/** A GPU as the driver tells of it. Memory in MiB. */
export interface Card {
  readonly uuid: string;
  readonly totalMib: number;
  /** Memory of all processes together, also those that this one cannot see. */
  readonly usedMib: number;
}

/** Memory of one process on one card. */
export interface CardProcess {
  readonly uuid: string;
  /** In the PID namespace of the driver, which is that of the host. */
  readonly pid: number;
  /** In MiB; undefined: the driver does not say. */
  readonly usedMib: number | undefined;
}

export interface CardReading {
  readonly cards: readonly Card[];
  readonly processes: readonly CardProcess[];
}

/** An answer of nvidia-smi that is none. */
class CardReadingError extends Error {
  override readonly name = 'CardReadingError';
}

/**
 * Reads the memory of all visible cards and of the compute processes on them.
 * @param program path of nvidia-smi
 * @throws CommandError, CardReadingError or the signal's reason
 */
export async function readCards(program: string, signal: AbortSignal): Promise<CardReading> {
  const ask = (query: string) =>
    run(program, [query, '--format=csv,noheader,nounits'], { signal, timeoutMs: QUERY_MS });
  const [cards, processes] = await Promise.all([
    ask('--query-gpu=uuid,memory.total,memory.used'),
    ask('--query-compute-apps=gpu_uuid,pid,used_gpu_memory'),
  ]);
  return { cards: parseCards(cards), processes: parseProcesses(processes) };
}

/** @throws CardReadingError */
export function parseCards(text: string): Card[] {
  return rows(text).flatMap(([uuid = '', total = '', used = '']) => {
    const [totalMib, usedMib] = [mib(total), mib(used)];
    // A card whose memory is not told, such as a MIG device to some drivers, cannot be counted.
    return totalMib === undefined || usedMib === undefined ? [] : [{ uuid, totalMib, usedMib }];
  });
}

/** @throws CardReadingError */
export function parseProcesses(text: string): CardProcess[] {
  return rows(text).map(([uuid = '', pid = '', used = '']) => {
    if (!/^\d+$/.test(pid))
      throw new CardReadingError(`nvidia-smi told of the process «${pid.slice(0, 40)}»`);
    return { uuid, pid: Number(pid), usedMib: mib(used) };
  });
}

/** Returns the three fields of each line, the first of them the card's UUID. */
function rows(text: string): string[][] {
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  return lines.map((line) => {
    const fields = line.split(',').map((field) => field.trim());
    if (fields.length !== 3 || !/^(GPU|MIG)-[\w/-]{1,120}$/.test(fields[0] ?? ''))
      throw new CardReadingError(`nvidia-smi answered «${line.slice(0, 120)}»`);
    return fields;
  });
}

/** Returns a figure in MiB; undefined for `[N/A]`, `[Not Supported]` and the like. */
function mib(field: string): number | undefined {
  if (/^\d{1,9}$/.test(field)) return Number(field);
  if (/^\[.*\]$/.test(field)) return undefined;
  throw new CardReadingError(`nvidia-smi told of a memory of «${field.slice(0, 40)}»`);
}
