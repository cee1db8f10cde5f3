import type { WebSocket } from 'ws';
import { Delivery } from './delivery.ts';
import type { MediaFormat } from './media-format.ts';
import type { Pings } from './pings.ts';
import type { Relay } from './relay.ts';

export interface OutputOptions {
  readonly ws: Pick<WebSocket, 'send' | 'bufferedAmount'>;
  readonly pings: Pick<Pings, 'send'>;
  readonly relay: Pick<Relay, 'pause' | 'resume'>;
  readonly format: MediaFormat;
  readonly clock: () => number;
  /** Called when a converted message is given to the socket. */
  readonly sent: (data: Buffer, now: number) => void;
}

/** Converted media on its way to the client. */
export interface Output {
  push(data: Buffer, now: number): void;
  onPong(data: Buffer): void;
  /** Reports that the client's socket is not read for now, and so its pongs are not either. */
  onInputPaused(): void;
  onInputResumed(now: number): void;
  /** Sends nothing more. */
  stop(): void;
  /** Time for which the client has read too little, in ms. */
  blockedFor(now: number): number;
  /** Whether the relay is held until the client has read more. */
  readonly isHoldingRelay: boolean;
  /** Time at which it was last held: `now` while it is, 0 if never. */
  heldUntil(now: number): number;
  /** Total time for which it was held, in ms. */
  heldMs(now: number): number;
  readonly sent: number;
  /** Number of pictures dropped for newer ones. */
  readonly dropped: number;
}

/** Time at the limit after which a client counts as behind, in ms; a burst has been read by then. */
const BEHIND_MS = 2_000;

/**
 * Creates the output of a stream. Sound is never dropped: a client that is too far behind holds the relay until it
 * has read half of it. Of pictures only the newest waits, so a slow client sees fewer pictures and not older ones.
 */
export function createOutput(options: OutputOptions): Output {
  return options.format.kind === 'voice' ? createSoundOutput(options) : createPictureOutput(options);
}

function createSoundOutput({ ws, pings, relay, format, clock, sent }: OutputOptions): Output {
  const delivery = new Delivery(format.markEvery);
  let heldAt: number | undefined;
  let heldUntil = 0;
  /** Total of the periods that have ended. */
  let heldMs = 0;
  let isInputPaused = false;
  let stopped = false;
  let count = 0;
  const isBehind = (now: number) =>
    !isInputPaused &&
    delivery.isConfirmed &&
    delivery.unread >= format.mostUnread * (heldAt === undefined ? 1 : 0.5) &&
    (heldAt !== undefined || delivery.waited(now) >= BEHIND_MS);
  const isFull = () => ws.bufferedAmount >= format.mostUnread * (heldAt === undefined ? 1 : 0.5);
  const check = (now: number) => {
    if (stopped) return;
    const hold = isFull() || isBehind(now);
    if (hold === (heldAt !== undefined)) return;
    heldMs += now - (heldAt ?? now);
    heldAt = hold ? now : undefined;
    heldUntil = now;
    if (hold) relay.pause();
    else relay.resume();
  };
  const flushed = () => check(clock());
  const ping = (mark: number | undefined) => {
    if (mark !== undefined && !stopped) pings.send(String(mark));
  };
  return {
    push(data, now) {
      count++;
      ws.send(data, flushed);
      sent(data, now);
      ping(delivery.sent(data.length, now));
      check(now);
    },
    onPong(data) {
      const now = clock();
      ping(delivery.read(numberIn(data), now));
      check(now);
    },
    onInputPaused() {
      isInputPaused = true;
    },
    onInputResumed(now) {
      isInputPaused = false;
      delivery.restart(now);
    },
    stop() {
      stopped = true;
    },
    blockedFor: (now) => (heldAt === undefined ? 0 : now - heldAt),
    get isHoldingRelay() {
      return heldAt !== undefined;
    },
    heldUntil: (now) => (heldAt === undefined ? heldUntil : now),
    heldMs: (now) => heldMs + now - (heldAt ?? now),
    get sent() {
      return count;
    },
    dropped: 0,
  };
}

function createPictureOutput({ ws, pings, format, clock, sent }: OutputOptions): Output {
  const delivery = new Delivery(format.markEvery);
  let newest: Buffer | undefined;
  let waitingSince = 0;
  /** Given to the socket, and not yet taken by the kernel. */
  let unflushed = 0;
  let stopped = false;
  let count = 0;
  let dropped = 0;
  const hasRoom = () => unflushed === 0 && (!delivery.isConfirmed || delivery.unread < format.mostUnread);
  const ping = (mark: number | undefined) => {
    if (mark !== undefined && !stopped) pings.send(String(mark));
  };
  const send = (data: Buffer, now: number) => {
    count++;
    unflushed++;
    ws.send(data, flushed);
    sent(data, now);
    ping(delivery.sent(1, now));
  };
  const sendNewest = () => {
    if (!newest || stopped || !hasRoom()) return;
    const data = newest;
    newest = undefined;
    send(data, clock());
  };
  const flushed = () => {
    unflushed--;
    sendNewest();
  };
  return {
    push(data, now) {
      if (!newest && hasRoom()) return send(data, now);
      if (newest) dropped++;
      else waitingSince = now;
      newest = data;
    },
    onPong(data) {
      ping(delivery.read(numberIn(data), clock()));
      sendNewest();
    },
    onInputPaused() {},
    onInputResumed() {},
    stop() {
      stopped = true;
      newest = undefined;
    },
    // A client that reads takes the waiting picture, and another one begins to wait.
    blockedFor: (now) => (newest ? now - waitingSince : 0),
    isHoldingRelay: false,
    heldUntil: () => 0,
    heldMs: () => 0,
    get sent() {
      return count;
    },
    get dropped() {
      return dropped;
    },
  };
}

/** Returns the number in a pong; NaN when it is not one of ours. */
function numberIn(data: Buffer): number {
  return data.length > 0 && data.length < 16 ? Number(data.toString('latin1')) : Number.NaN;
}
