import type { WebSocket } from 'ws';
import type { MediaFormat } from './media-format.ts';
import type { Output } from './output.ts';
import type { Relay } from './relay.ts';
import { Unanswered } from './unanswered.ts';

export interface InputOptions {
  readonly ws: Pick<WebSocket, 'pause' | 'resume'>;
  readonly relay: Pick<Relay, 'send'>;
  readonly format: MediaFormat;
  readonly clock: () => number;
  readonly output: Pick<
    Output,
    'isHoldingRelay' | 'heldUntil' | 'heldMs' | 'onInputPaused' | 'onInputResumed'
  >;
  /** The client was not read for so long, ms, because the agent did not answer. */
  readonly unread: (ms: number, now: number) => void;
}

/** The client's media on its way to the agent. */
export interface Input {
  /** @returns false when it cannot be taken: the client does not read what it gets for what it sends */
  push(data: Buffer, now: number): boolean;
  /**
   * The agent has answered the message of that number, and with it all before.
   * @returns for how long it was at the agent, ms; undefined: it was answered before
   */
  answered(sequence: bigint, now: number): number | undefined;
  /** Must be called at the end: what waits is not sent any more, whatever room there comes to be. */
  stop(): void;
  /** For how long the agent has taken nothing of what waits for it, ms. */
  blockedFor(now: number): number;
  /** Pictures thrown away for newer ones. */
  readonly dropped: number;
}

/** However small they are, messages cost. */
const MAX_MESSAGES = 1_000;
/**
 * Times the bound, while it is the client that does not read: 12 s of sound. It has 10 s to read again, in which it may
 * well go on speaking.
 */
const MAX_WHILE_HELD = 6;
/** Pictures that the transport has not taken yet. */
const MAX_UNWRITTEN = 2;

/**
 * Sound is never left out: what the agent has not answered is bounded, and at the bound the client's socket is not read
 * until half of it is answered. Of pictures only the newest waits.
 */
export function createInput(options: InputOptions): Input {
  return options.format.kind === 'voice' ? createSoundInput(options) : createPictureInput(options);
}

function createSoundInput({ ws, relay, format, output, unread }: InputOptions): Input {
  const unanswered = new Unanswered();
  let sequence = 0n;
  let pausedAt: number | undefined;
  /** `output.heldMs` then. */
  let heldMs = 0;
  let answeredAt = 0;
  const written = () => {};
  const isOver = (times: number) =>
    unanswered.units >= format.mostUnanswered * times || unanswered.messages >= MAX_MESSAGES * times;
  return {
    dropped: 0,
    push(data, now) {
      unanswered.sent(++sequence, format.unitsOf(data), now);
      relay.send(sequence, data, written);
      if (!isOver(1) || pausedAt !== undefined) return true;
      // That it reads again is known by its pongs, which come behind its media: with both ways stopped nothing would ever
      // go on. So what it says meanwhile is kept, which is bounded by how fast it may speak.
      if (output.isHoldingRelay) return !isOver(MAX_WHILE_HELD);
      pausedAt = now;
      heldMs = output.heldMs(now);
      ws.pause();
      output.onInputPaused();
      return true;
    },
    answered(number, now) {
      const sentAt = unanswered.answered(number);
      answeredAt = now;
      if (pausedAt !== undefined && !isOver(0.5)) {
        // While the client does not read, answers cannot come: that much of the pause is its own.
        unread(now - pausedAt - (output.heldMs(now) - heldMs), now);
        pausedAt = undefined;
        output.onInputResumed(now);
        ws.resume();
      }
      return sentAt === undefined ? undefined : now - sentAt;
    },
    // What was pushed has gone to the relay, and waits for nothing.
    stop() {},
    // While the relay is held answers are not listened to, and so not missed.
    blockedFor: (now) =>
      pausedAt === undefined ? 0 : now - Math.max(pausedAt, answeredAt, output.heldUntil(now)),
  };
}

function createPictureInput({ relay, format, clock }: InputOptions): Input {
  const unanswered = new Unanswered();
  let sequence = 0n;
  let unwritten = 0;
  let newest: Buffer | undefined;
  let heldAt = 0;
  let dropped = 0;
  let answeredAt = 0;
  const hasRoom = () => unwritten < MAX_UNWRITTEN && unanswered.messages < format.mostUnanswered;
  const written = () => {
    unwritten--;
    sendNewest(clock());
  };
  const send = (data: Buffer, now: number) => {
    unanswered.sent(++sequence, 1, now);
    unwritten++;
    relay.send(sequence, data, written);
  };
  const sendNewest = (now: number) => {
    if (!newest || !hasRoom()) return;
    const data = newest;
    newest = undefined;
    send(data, now);
  };
  return {
    get dropped() {
      return dropped;
    },
    push(data, now) {
      if (!newest && hasRoom()) send(data, now);
      else {
        if (newest) dropped++;
        else heldAt = now;
        newest = data;
      }
      return true;
    },
    answered(number, now) {
      const sentAt = unanswered.answered(number);
      answeredAt = now;
      sendNewest(now);
      return sentAt === undefined ? undefined : now - sentAt;
    },
    stop() {
      newest = undefined;
    },
    blockedFor: (now) => (newest ? now - Math.max(heldAt, answeredAt) : 0),
  };
}
