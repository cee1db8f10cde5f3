import { setTimeout as delay } from 'node:timers/promises';
import { createListeners } from '@semblance/common/async/listeners';
import { describeError } from '@semblance/common/errors';
import type { Logger } from '@semblance/common/logging';
import { type CardReading, readCards } from './nvidia-smi.ts';

/** Change of a figure, in MiB, from which it is worth telling. */
const WORTH_MIB = 256;

/** A card as the agent states it. Memory in MiB. */
export interface CardStatement {
  readonly uuid: string;
  readonly totalMib: number;
  /** Of all processes, so that the agents of one card see each other's. */
  readonly usedMib: number;
  /** Of the engines of this agent; undefined: the driver's list does not tell which these are. */
  readonly ownMib?: number;
}

/** The memory of engine processes on the cards, as the pool of an engine needs it. */
export interface EngineMemory {
  /** Must be called before a process starts, and the returned function once it is warm, to find it in the list. */
  starting(): Promise<(pid: number) => Promise<void>>;
  /** Must be called when a process has ended. */
  ended(pid: number): void;
  /** Returns what the process holds on all cards, in MiB; undefined: not known. */
  vramOf(pid: number): number | undefined;
  /** Calls the listener after each reading. Returns the function that ends it. */
  onReading(listener: () => void): () => void;
}

export interface Cards extends EngineMemory {
  /** The visible cards; none before the first reading and while they cannot be read. */
  readonly statement: readonly CardStatement[];
  close(): Promise<void>;
}

export interface CardsOptions {
  /** Path of nvidia-smi. */
  readonly program: string;
  readonly logger: Logger;
  /** Called when the statement has changed enough to be told. */
  readonly onChange: () => void;
  /** Pause between two readings, in ms. Default 10,000. */
  readonly everyMs?: number;
}

const NOTHING: CardReading = { cards: [], processes: [] };

/** Reads the memory of the cards now and then, and tells whose it is. */
export function createCards({ program, logger, onChange, everyMs = 10_000 }: CardsOptions): Cards {
  const closing = new AbortController();
  const { tell, subscribe } = createListeners<undefined>();
  /** PID of an engine process → its PID in the driver's list, which is another one in most containers. */
  const found = new Map<number, number>();
  let reading: CardReading = NOTHING;
  let told = '';
  let failed = false;

  /** Returns undefined when the cards could not be read. */
  async function read(): Promise<CardReading | undefined> {
    try {
      reading = await readCards(program, closing.signal);
      if (failed) logger.info('reading the memory of the cards again');
      failed = false;
    } catch (error) {
      if (closing.signal.aborted) return undefined;
      reading = NOTHING;
      if (!failed) logger.error(`cannot read the memory of the cards: ${describeError(error)}`);
      failed = true;
    }
    const now = JSON.stringify(statement().map(rounded));
    if (now !== told) onChange();
    told = now;
    tell(undefined);
    return failed ? undefined : reading;
  }

  function statement(): CardStatement[] {
    const own = new Set(found.values());
    // Voice models are in the agent's own process, which can be recognised only by an equal PID.
    if ([...found].some(([pid, listed]) => pid === listed)) own.add(process.pid);
    return reading.cards.map((card) => {
      const mine = reading.processes.filter(({ uuid, pid }) => uuid === card.uuid && own.has(pid));
      return { ...card, ...(found.size > 0 ? { ownMib: sumOf(mine) } : {}) };
    });
  }

  async function keepReading(): Promise<void> {
    while (!closing.signal.aborted) {
      await read();
      await delay(everyMs, undefined, { signal: closing.signal }).catch(() => {});
    }
  }
  const kept = keepReading();

  return {
    get statement() {
      return statement();
    },
    async starting() {
      const before = await read();
      return async (pid) => {
        const now = await read();
        // Without both there is nothing to compare.
        if (!before || !now) return;
        const known = new Set([...found.values(), ...before.processes.map((each) => each.pid)]);
        const fresh = [...new Set(now.processes.map((each) => each.pid))].filter((each) => !known.has(each));
        const listed = fresh.includes(pid) ? pid : fresh[0];
        if (listed !== undefined && (listed === pid || fresh.length === 1)) found.set(pid, listed);
        else if (fresh.length > 1)
          logger.warn(
            { enginePid: pid },
            `cannot tell the memory of an engine on the card: ${fresh.length} processes came at once`,
          );
      };
    },
    ended: (pid) => void found.delete(pid),
    vramOf(pid) {
      const listed = found.get(pid);
      const own = reading.processes.filter((each) => each.pid === listed);
      return own.length > 0 && own.every(({ usedMib }) => usedMib !== undefined) ? sumOf(own) : undefined;
    },
    onReading: (listener) => subscribe(listener),
    async close() {
      closing.abort(new Error('the agent is ending'));
      await kept;
    },
  };
}

function sumOf(processes: CardReading['processes']): number {
  return processes.reduce((sum, { usedMib = 0 }) => sum + usedMib, 0);
}

function rounded({ uuid, totalMib, usedMib, ownMib }: CardStatement) {
  const coarse = (figure: number) => Math.round(figure / WORTH_MIB);
  return [uuid, totalMib, coarse(usedMib), ownMib === undefined ? null : coarse(ownMib)];
}
