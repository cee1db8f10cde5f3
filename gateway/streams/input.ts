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
  /** Called with the time, in ms, for which the client was not read because the agent did not answer. */
  readonly unread: (ms: number, now: number) => void;
}

/** The client's media on its way to the agent. */
export interface Input {
  /** @returns false when it is refused, because the client does not read what it gets in return */
  push(data: Buffer, now: number): boolean;
  /**
   * Records that the agent has answered this message and all before it.
   * @returns its time at the agent, in ms; undefined when it was answered before
   */
  answered(sequence: bigint, now: number): number | undefined;
  /** Must be called at the end, so that waiting media are not sent any more. */
  stop(): void;
  /** Time for which the agent has taken nothing of the waiting media, in ms. */
  blockedFor(now: number): number;
  /** Number of pictures dropped for newer ones. */
  readonly dropped: number;
}

/** Most unanswered messages, because each message costs, however small it is. */
const MAX_MESSAGES = 1_000;
/**
 * Factor on the limit while the client does not read: 12 s of sound. The client has 10 s to read again and may go
 * on speaking.
 */
const MAX_WHILE_HELD = 6;
/** Most pictures that the transport has not taken yet. */
const MAX_UNWRITTEN = 2;

/**
 * Creates the input of a stream. Sound is never dropped: unanswered sound is limited, and at the limit the client's
 * socket is not read until half of it is answered. Of pictures only the newest waits.
 */
export function createInput(options: InputOptions): Input {
  return options.format.kind === 'voice' ? createSoundInput(options) : createPictureInput(options);
}

function createSoundInput({ ws, relay, format, output, unread }: InputOptions): Input {
  const unanswered = new Unanswered();
  let sequence = 0n;
  let pausedAt: number | undefined;
  /** Value of `output.heldMs` at that time. */
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
      // Its pongs, which follow its media, tell that the client reads again. With both directions stopped nothing
      // would go on. So its media are kept, limited by the rate at which it may speak.
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
        // While the client does not read, answers cannot arrive, so the client itself causes that part of the
        // pause.
        unread(now - pausedAt - (output.heldMs(now) - heldMs), now);
        pausedAt = undefined;
        output.onInputResumed(now);
        ws.resume();
      }
      return sentAt === undefined ? undefined : now - sentAt;
    },
    // Everything pushed has gone to the relay; nothing waits.
    stop() {},
    // While the relay is held, answers are not read, so none are overdue.
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
