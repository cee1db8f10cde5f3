import type { Socket } from 'node:net';
import { END_REASONS } from '@semblance/common/live-session';
import type { WebSocket } from 'ws';
import { Allowance } from './allowance.ts';
import type { Changes } from './changes.ts';
import { closeReason, codeOf, type Ending, endingFor, endingOfError, faultOf, reasonOf } from './endings.ts';
import { createInput, type Input } from './input.ts';
import type { MediaFormat } from './media-format.ts';
import type { Meter } from './meter.ts';
import { createOutput, type Output } from './output.ts';
import { Pings } from './pings.ts';
import type { Relay } from './relay.ts';
import type { Reported } from './reporter.ts';
import type { StreamPace } from './stream-pace.ts';

/**
 * Allowance for messages of any kind: enough for pieces of 2 ms, or for messages without media. After a silence it
 * is enough for everything that the client may have said, in pieces of 10 ms. Pongs to the gateway's pings do not
 * count.
 */
const MESSAGES = { perMs: 0.5, start: 1_000, most: 2_000 };

/** Consecutive messages that the agent could not read, after which the client is told. */
const MAX_UNREADABLE = 50;

export interface StreamOptions {
  readonly sessionId: string;
  readonly connectionId: string;
  readonly ws: WebSocket;
  /** The socket below `ws`. */
  readonly socket: Socket;
  readonly relay: Relay;
  readonly format: MediaFormat;
  readonly meter: Meter;
  readonly grantedSec: number;
  /** Whether the client asked for text frames after the first. */
  readonly notices: boolean;
  /** Handles the text frames of a client that asked to change its session; undefined: it did not ask. */
  readonly changes: Changes | undefined;
  /** Milliseconds of a monotonic clock. */
  readonly clock: () => number;
  /** Time, in ms, by which this process is late because it stood still. */
  readonly lateMs: (now: number) => number;
  readonly pace: StreamPace;
  /** Called with the time from sending a message to the agent until its answer, in ms. */
  readonly onAnswered: (ms: number) => void;
  /** Called once. */
  readonly onEnd: (ending: Ending) => void;
}

/** Numbers of media messages. */
export interface StreamCounts {
  readonly received: number;
  /** Messages that the agent could not read. */
  readonly unreadable: number;
  readonly sent: number;
  /** Pictures dropped for newer ones, in either direction. */
  readonly dropped: number;
}

/**
 * One connected session: the client's socket on one side, the agent's relay on the other, the meter between them.
 * Every ending ends it once, with everything it holds.
 */
export class Stream implements Reported {
  readonly #o: StreamOptions;
  readonly #input: Input;
  readonly #output: Output;
  readonly #pings: Pings;
  readonly #media: Allowance;
  readonly #messages: Allowance;
  readonly #beganAt: number;
  #limit: NodeJS.Timeout | undefined;
  #bytesRead = 0;
  #heardAt: number;
  #pingedAt: number;
  #mediaAt: number;
  #received = 0;
  #unreadable = 0;
  #unreadableInARow = 0;
  #ended = false;

  constructor(options: StreamOptions) {
    this.#o = options;
    const { ws, relay, format, clock, meter, pace } = options;
    this.#media = new Allowance(format.allowance, pace.stuck);
    this.#messages = new Allowance(MESSAGES, pace.stuck);
    const now = clock();
    this.#beganAt = now;
    this.#heardAt = now;
    this.#pingedAt = now;
    this.#mediaAt = now;
    const sent = (data: Buffer, at: number) => {
      if (meter.sent(at, format.durationMs(data))) this.#armLimit();
    };
    this.#pings = new Pings(ws);
    this.#output = createOutput({ ws, pings: this.#pings, relay, format, clock, sent });
    this.#input = createInput({
      ws,
      relay,
      format,
      clock,
      output: this.#output,
      unread: (ms, now) => this.unread(ms, now),
    });
  }

  /** Sends the format to the client and lets media flow. */
  begin(): void {
    const { ws, relay } = this.#o;
    ws.on('message', (data, isBinary) => this.#onMessage(data as Buffer, isBinary));
    ws.on('pong', (data) => {
      // Answers to our pings are free: a client may send its allowance of messages besides.
      if (!this.#ended && (this.#pings.answered() || !this.#isTooMany())) this.#output.onPong(data);
    });
    ws.on('ping', (data) => {
      if (!this.#ended && !this.#isTooMany()) this.#pings.answer(data);
    });
    ws.on('error', (error) => this.end(endingOfError(error)));
    ws.on('closing', () => this.end({ name: 'closed', text: '' }));
    ws.on('close', (code) =>
      this.end(code === 1006 ? { name: 'gone', text: '' } : { name: 'closed', text: '' }),
    );
    relay.listen({
      media: (sequence, data) => this.#onConverted(sequence, data),
      unreadable: (sequence) => this.#onUnreadable(sequence),
      ending: (reason, inSeconds) => this.warn(reason, inSeconds),
      ended: (reason, message, goingAway) => this.end(endingFor(reason, message, goingAway)),
      broken: () => this.end({ name: 'render_failed', text: 'what converts the stream is gone' }),
    });
    if (this.#ended) return;
    ws.send(relay.ready.firstFrame);
    this.#o.changes?.begin();
  }

  get sessionId(): string {
    return this.#o.sessionId;
  }

  get connectionId(): string {
    return this.#o.connectionId;
  }

  get streamedMs(): number {
    return this.#o.meter.streamedMs;
  }

  get counts(): StreamCounts {
    return {
      received: this.#received,
      unreadable: this.#unreadable,
      sent: this.#output.sent,
      dropped: this.#input.dropped + this.#output.dropped,
    };
  }

  over(reason: string | undefined): void {
    const known = END_REASONS.find((one) => one === reason);
    const ending = endingFor(known, 'the session is over');
    // The caller closed another connection or its account was settled without this one, because the socket here is
    // open.
    this.end(known === undefined ? { ...ending, name: 'cancelled' } : ending);
  }

  /** Must be called about once a second. */
  tick(now: number): void {
    if (this.#ended) return;
    const { pace, socket, ws } = this.#o;
    if (socket.bytesRead !== this.#bytesRead || ws.isPaused) {
      this.#bytesRead = socket.bytesRead;
      this.#heardAt = now;
    }
    if (ws.isPaused) this.#mediaAt = now;
    const ending = this.#endingAt(now);
    if (ending) this.end(ending);
    else if (now - this.#pingedAt >= pace.ping) {
      this.#pingedAt = now;
      this.#pings.send();
    }
  }

  /**
   * Reports that the client was not read for the last `ms`, for no reason of its own. Its messages from that time
   * arrive at once now and are not too fast.
   */
  unread(ms: number, now: number): void {
    const since = Math.min(ms, now - this.#beganAt);
    this.#media.unread(since, now);
    this.#messages.unread(since, now);
  }

  #endingAt(now: number): Ending | undefined {
    const { silence, idle, stuck } = this.#o.pace;
    if (this.#output.blockedFor(now) >= stuck)
      return { name: 'timed_out', text: 'the converted media is not read' };
    if (this.#input.blockedFor(now) >= stuck)
      return { name: 'render_failed', text: 'what converts the stream does not answer' };
    if (now - this.#heardAt >= silence)
      return { name: 'timed_out', text: `nothing was heard for ${silence / 1000} s` };
    if (now - this.#mediaAt >= idle) return { name: 'timed_out', text: `no media came for ${idle / 1000} s` };
    return undefined;
  }

  /**
   * Tells the client that the session will be ended, if it asked for notices. Other clients would take the frame
   * for the format. @param reason a stable word
   */
  warn(reason: string, inSeconds: number): void {
    const { ws, notices } = this.#o;
    if (this.#ended || !notices || ws.readyState !== ws.OPEN) return;
    ws.send(JSON.stringify({ type: 'ending', reason, in_seconds: inSeconds }));
  }

  end(ending: Ending): void {
    if (this.#ended) return;
    this.#ended = true;
    clearTimeout(this.#limit);
    const { ws, relay, changes, onEnd } = this.#o;
    changes?.stop();
    // Nothing may follow the close: a picture that waits for room would be sent as soon as the one before is
    // written.
    this.#input.stop();
    this.#output.stop();
    relay.close(reasonOf(ending), faultOf(ending));
    if (ws.readyState === ws.OPEN) {
      // The client's answer to the close frame must be read.
      if (ws.isPaused) ws.resume();
      ws.close(codeOf(ending), closeReason(ending));
    }
    onEnd(ending);
  }

  #onMessage(data: Buffer, isBinary: boolean): void {
    if (this.#ended || this.#isTooMany()) return;
    const refusal = this.#refusalOf(data, isBinary);
    if (refusal) this.end(refusal);
  }

  /** Forwards a message. Returns the ending if it must be refused. */
  #refusalOf(data: Buffer, isBinary: boolean): Ending | undefined {
    const { format, clock, changes } = this.#o;
    if (!isBinary && changes) return changes.receive(data, clock());
    if (!isBinary) return { name: 'unsupported_data', text: 'only binary messages are taken' };
    const media = format.whole(data);
    if (media.length === 0) return undefined;
    const fault = format.faultOf(media);
    if (fault) return { name: 'invalid_payload', text: fault };
    const now = clock();
    if (!this.#media.take(format.unitsOf(media), now)) return { name: 'too_fast', text: format.tooFast };
    this.#mediaAt = now;
    this.#received++;
    if (this.#input.push(media, now)) return undefined;
    return { name: 'timed_out', text: 'the converted media is not read' };
  }

  #isTooMany(): boolean {
    if (this.#ended) return false;
    const now = this.#o.clock();
    // Messages sent during a standstill may be read before the standstill is detected.
    const late = this.#o.lateMs(now);
    if (late > 0) this.unread(late, now);
    if (this.#messages.take(1, now)) return false;
    this.end({ name: 'too_fast', text: 'more than 500 messages a second' });
    return true;
  }

  #onConverted(sequence: bigint, data: Buffer): void {
    if (this.#ended) return;
    const now = this.#o.clock();
    const ms = this.#input.answered(sequence, now);
    if (ms !== undefined) this.#o.onAnswered(ms);
    this.#unreadableInARow = 0;
    if (now >= (this.#o.meter.limitAt ?? Infinity)) this.#stopAtLimit();
    else this.#output.push(data, now);
  }

  /** Tolerates some unreadable messages and closes the stream after too many, so that the client does not wait for ever. */
  #onUnreadable(sequence: bigint): void {
    if (this.#ended) return;
    this.#input.answered(sequence, this.#o.clock());
    this.#unreadable++;
    if (++this.#unreadableInARow < MAX_UNREADABLE) return;
    this.end({ name: 'invalid_payload', text: `${MAX_UNREADABLE} messages in a row could not be read` });
  }

  /** Both timers and the clock of the meter are monotonic; a timer that fires early is set again. */
  #armLimit(): void {
    const left = (this.#o.meter.limitAt ?? 0) - this.#o.clock();
    if (left <= 0) this.#stopAtLimit();
    else this.#limit = setTimeout(() => this.#armLimit(), Math.min(Math.ceil(left), 2 ** 31 - 1));
  }

  #stopAtLimit(): void {
    const text = `the ${this.#o.grantedSec} s that were granted are used up`;
    this.end({ name: 'session_limit_reached', text });
  }
}
