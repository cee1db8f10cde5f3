import { describeError } from '@semblance/common/errors';
import type { Logger } from '@semblance/common/logging';
import type { SessionReport, SessionVerdict } from '@semblance/proto/semblance/control/v1/control';

/** A connection whose progress is reported. */
export interface Reported {
  readonly sessionId: string;
  readonly connectionId: string;
  readonly streamedMs: number;
  /** The session is over as far as the books are concerned. */
  over(reason: string | undefined): void;
}

export interface ReporterOptions {
  /** One message to the control plane; a verdict for each report. */
  readonly send: (reports: SessionReport[]) => Promise<SessionVerdict[]>;
  readonly logger: Logger;
  /** Most final reports kept for a control plane that does not take them. */
  readonly mostOwed?: number;
}

export interface Reporter {
  /** @param wantedMs how often reports of it are wanted */
  add(connection: Reported, wantedMs: number): void;
  /** The connection is over: its final report is sent until it was taken. */
  end(connection: Reported, reason: string | undefined): void;
  /** Final reports that were not taken yet. */
  readonly owed: number;
  /** Sends what is owed; resolves to how many reports nobody has taken. */
  close(withinMs: number): Promise<number>;
}

/** The control plane stores about a thousand in the time that a message may take. */
const MAX_BATCH = 500;
/** A control plane that is down for ten minutes, and ten sessions a second that end meanwhile. */
const MAX_OWED = 6_000;
/** Until the first session says otherwise. */
const EVERY_MS = 2_000;
const [LEAST_EVERY_MS, MAX_EVERY_MS] = [100, 30_000];

/**
 * Reports of all sessions of this gateway, together, and one message at a time: so a final report is never overtaken by
 * an older one. What could not be sent goes along with the next.
 */
export function createReporter({ send, logger, mostOwed = MAX_OWED }: ReporterOptions): Reporter {
  /** Those that go on, and how often each wants to be told of. */
  const open = new Map<Reported, number>();
  let everyMs = EVERY_MS;
  let owed: SessionReport[] = [];
  let timer: NodeJS.Timeout | undefined;
  /** States what `timer` waits for in all. */
  let timerMs = 0;
  let sending: Promise<void> | undefined;
  let failing = false;
  let closed = false;
  /** How far open sessions are is to be told with the next message. */
  let progressDue = false;

  /**
   * All are told of together, as often as the one that wants it most: the silence that ends a session goes by what
   * was set when it connected, so none is to be told of less often than it was told then.
   */
  function interval(): number {
    let least = MAX_EVERY_MS;
    for (const wantedMs of open.values()) least = Math.min(least, wantedMs);
    if (open.size > 0) everyMs = Math.max(LEAST_EVERY_MS, least);
    return everyMs;
  }

  function schedule(): void {
    if (timer || closed || (open.size === 0 && owed.length === 0)) return;
    timerMs = interval();
    timer = setTimeout(() => {
      timer = undefined;
      progressDue = true;
      void flush().finally(schedule);
    }, timerMs);
  }

  function flush(): Promise<void> {
    sending ??= sendAll().finally(() => {
      sending = undefined;
      // What came to be due while it ended.
      if ((owed.length > 0 || progressDue) && !failing) void flush();
    });
    return sending;
  }

  async function sendAll(): Promise<void> {
    try {
      // In turns: sessions that end one after another must not keep those that go on from being told of.
      while (owed.length > 0 || progressDue) {
        if (owed.length > 0) await sendOwed();
        if (progressDue) await sendProgress();
      }
      if (failing) logger.info({ owed: owed.length }, 'sending reports of sessions again');
      failing = false;
    } catch (error) {
      if (!failing)
        logger.warn({ owed: owed.length }, `cannot send reports of sessions: ${describeError(error)}`);
      failing = true;
    }
  }

  async function sendOwed(): Promise<void> {
    const batch = owed.slice(0, MAX_BATCH);
    const { length } = await send(batch);
    const taken = new Set(batch.slice(0, length));
    owed = owed.filter((report) => !taken.has(report));
    if (taken.size === 0) throw new Error('the control plane took none of the reports');
  }

  async function sendProgress(): Promise<void> {
    progressDue = false;
    const connections = [...open.keys()];
    for (let i = 0; i < connections.length; i += MAX_BATCH) {
      // Those that have ended meanwhile have a final report of their own.
      const batch = connections.slice(i, i + MAX_BATCH).filter((connection) => open.has(connection));
      if (batch.length === 0) continue;
      const verdicts = await send(batch.map((connection) => reportOf(connection)));
      for (const [n, verdict] of verdicts.entries()) if (verdict.over) batch[n]?.over(verdict.reason);
    }
    // The message under way may be one of many in a row: the next interval does not wait for their end.
    schedule();
  }

  return {
    add(connection, wantedMs) {
      open.set(connection, wantedMs);
      // It may not be told of in time by what the others wait for.
      if (timer && Math.max(LEAST_EVERY_MS, wantedMs) < timerMs) {
        clearTimeout(timer);
        timer = undefined;
      }
      schedule();
    },
    end(connection, reason) {
      open.delete(connection);
      owed.push({ ...reportOf(connection), ended: true, reason });
      if (owed.length > mostOwed) {
        const lost = owed.shift();
        // The control plane settles it by what was reported while it ran.
        logger.error({ session: lost?.sessionId }, 'dropping a final report: too many are waiting');
      }
      if (!failing) void flush();
      schedule();
    },
    get owed() {
      return owed.length;
    },
    async close(withinMs) {
      closed = true;
      clearTimeout(timer);
      timer = undefined;
      const deadline = performance.now() + withinMs;
      while (owed.length > 0 && performance.now() < deadline) {
        let late: NodeJS.Timeout | undefined;
        const left = deadline - performance.now();
        const waited = new Promise<void>((resolve) => {
          late = setTimeout(resolve, left);
        });
        await Promise.race([flush(), waited]);
        clearTimeout(late);
        if (owed.length > 0) await new Promise((resolve) => setTimeout(resolve, LEAST_EVERY_MS));
      }
      return owed.length;
    },
  };
}

function reportOf({ sessionId, connectionId, streamedMs }: Reported): SessionReport {
  return { sessionId, connectionId, streamedMs: BigInt(streamedMs), ended: false, reason: undefined };
}
