import { describeError } from '@semblance/common/errors';
import type { Logger } from '@semblance/common/logging';
import type { SessionReport, SessionVerdict } from '@semblance/proto/semblance/control/v1/control';

/** A connection whose progress is reported. */
export interface Reported {
  readonly sessionId: string;
  readonly connectionId: string;
  readonly streamedMs: number;
  /** The session is over for the books. */
  over(reason: string | undefined): void;
}

export interface ReporterOptions {
  /** Sends one message to the control plane; returns a verdict for each report. */
  readonly send: (reports: SessionReport[]) => Promise<SessionVerdict[]>;
  readonly logger: Logger;
}

export interface Reporter {
  /** @param wantedMs interval of its reports */
  add(connection: Reported, wantedMs: number): void;
  /** Reports the end of a connection. Its final report is sent until it was taken. */
  end(connection: Reported, reason: string | undefined): void;
  /** Number of final reports that were not taken yet. */
  readonly owed: number;
  /** Sends the remaining reports; resolves to the number that nobody has taken. */
  close(withinMs: number): Promise<number>;
}

/** Most reports in one message. The control plane stores about a thousand in the time of one message. */
const MAX_BATCH = 500;
/**
 * Most final reports that are kept while the control plane does not take them: enough for one that is down for ten
 * minutes while ten sessions end per second.
 */
export const MAX_OWED = 6_000;
/** Default until the first session says otherwise, in ms. */
const EVERY_MS = 2_000;
const [LEAST_EVERY_MS, MAX_EVERY_MS] = [100, 30_000];

/**
 * Creates the common reports of all sessions of this gateway. One message is sent at a time, so a final report is
 * never overtaken by an older one. Reports that could not be sent go with the next message.
 */
export function createReporter({ send, logger }: ReporterOptions): Reporter {
  /** Open connections and the wanted interval of each. */
  const open = new Map<Reported, number>();
  let everyMs = EVERY_MS;
  let owed: SessionReport[] = [];
  let timer: NodeJS.Timeout | undefined;
  /** Total time that `timer` waits for. */
  let timerMs = 0;
  let sending: Promise<void> | undefined;
  let failing = false;
  let closed = false;
  /** The next message must contain the progress of open sessions. */
  let progressDue = false;

  /**
   * Returns the shortest wanted interval, used for all: the timeout of a session follows the settings at its
   * connection, so no session may be reported less often.
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
      // Work that came due while it ended.
      if ((owed.length > 0 || progressDue) && !failing) void flush();
    });
    return sending;
  }

  async function sendAll(): Promise<void> {
    try {
      // Alternates, so that sessions that end one after another do not delay the reports of the open ones.
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
    const accepted = new Set(batch.slice(0, length));
    owed = owed.filter((report) => !accepted.has(report));
    if (accepted.size === 0) throw new Error('the control plane took none of the reports');
  }

  async function sendProgress(): Promise<void> {
    progressDue = false;
    const connections = [...open.keys()];
    for (let i = 0; i < connections.length; i += MAX_BATCH) {
      // Connections that have ended meanwhile have a final report of their own.
      const batch = connections.slice(i, i + MAX_BATCH).filter((connection) => open.has(connection));
      if (batch.length === 0) continue;
      const verdicts = await send(batch.map((connection) => reportOf(connection)));
      for (const [n, verdict] of verdicts.entries()) if (verdict.over) batch[n]?.over(verdict.reason);
    }
    // The running message may be one of many, so the next interval does not wait for their end.
    schedule();
  }

  return {
    add(connection, wantedMs) {
      open.set(connection, wantedMs);
      // Its report may be due before the timer of the others.
      if (timer && Math.max(LEAST_EVERY_MS, wantedMs) < timerMs) {
        clearTimeout(timer);
        timer = undefined;
      }
      schedule();
    },
    end(connection, reason) {
      open.delete(connection);
      owed.push({ ...reportOf(connection), ended: true, reason });
      if (owed.length > MAX_OWED) {
        const dropped = owed.shift();
        // The control plane settles the session by its last report.
        logger.error({ sessionId: dropped?.sessionId }, 'dropping a final report: too many are waiting');
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
