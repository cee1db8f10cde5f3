import { type ClientDuplexStream, Metadata, type ServiceError, status } from '@grpc/grpc-js';
import { ApiError } from '@semblance/common/errors';
import { REQUEST_ID_KEY } from '@semblance/common/grpc/status';
import { fromEndReason, type SessionEndReason, toEndReason } from '@semblance/common/live-session';
import type {
  LiveServiceClient,
  RelayOpen,
  RelayReady,
  RelayRequest,
  RelayResponse,
} from '@semblance/proto/semblance/live/v1/live';

export interface RelayListener {
  media(sequence: bigint, data: Buffer): void;
  /** The agent could not read this message, so no answer comes for it. */
  unreadable(sequence: bigint): void;
  /** The agent will end the session. @param reason a stable word */
  ending(reason: string, inSeconds: number): void;
  /**
   * The agent ended the session.
   * @param goingAway because its process ends
   * @param rejected why a content check rejected its inputs; empty if none did. This comes before it is ready
   */
  ended(reason: SessionEndReason | undefined, message: string, goingAway: boolean, rejected: string): void;
  /** The agent, or the way to it, is gone. */
  broken(error: Error): void;
}

/** The stream of one session's media to its agent and back. */
export interface Relay {
  readonly ready: RelayReady;
  /** Must be called once; nothing is read before. */
  listen(listener: RelayListener): void;
  /** Sends nothing after it is closed or broken. @param written called when the transport has taken it */
  send(sequence: bigint, data: Buffer, written: () => void): void;
  pause(): void;
  resume(): void;
  /** Ends the session; the listener hears no more. @param fault of the client for which it was closed */
  close(reason: SessionEndReason | undefined, fault?: string): void;
}

/** The agent refused or ended the session before it was ready. */
export class RelayRefusal extends ApiError {
  readonly reason: SessionEndReason | undefined;

  constructor(error: ApiError, reason: SessionEndReason | undefined) {
    super(error.code, error.message, { cause: error.cause, upstream: true });
    this.reason = reason;
  }
}

export interface OpenRelayOptions {
  readonly client: Pick<LiveServiceClient, 'relay'>;
  readonly open: RelayOpen;
  /** Longest wait until the agent is ready, in ms. */
  readonly timeoutMs: number;
  /** Aborted when nobody waits any more. */
  readonly signal: AbortSignal;
  /** Called once, when the stream is over. */
  readonly over: () => void;
}

/** Time for an agent to end the stream of a session that is over, in ms. */
const END_MS = 2_000;
const SILENT: RelayListener = { media() {}, unreadable() {}, ending() {}, ended() {}, broken() {} };

type Call = ClientDuplexStream<RelayRequest, RelayResponse>;

/** @throws RelayRefusal when the agent is not ready in time, or will not be */
export function openRelay({ client, open, timeoutMs, signal, over }: OpenRelayOptions): Promise<Relay> {
  const metadata = new Metadata();
  if (open.requestId) metadata.set(REQUEST_ID_KEY, open.requestId);
  const call = client.relay(metadata);
  return new Promise((resolve, reject) => {
    const fail = (refusal: RelayRefusal) => {
      settle();
      call.cancel();
      reject(refusal);
    };
    const settle = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', aborted);
    };
    const aborted = () => fail(refusalOf('not_found', 'The client went away.', undefined));
    const timer = setTimeout(() => fail(unreachable(new Error('it was not ready in time'))), timeoutMs);
    let listener: RelayListener = {
      ...SILENT,
      ended: (reason, message, _, rejected) => fail(endedAtOpen(reason, message, rejected)),
      broken: (error) => fail(brokenAtOpen(error as ServiceError)),
    };
    hear(call, {
      ready(ready) {
        settle();
        // Further messages wait until somebody listens.
        call.pause();
        resolve(
          relayOf(call, ready, (next) => {
            listener = next;
          }),
        );
      },
      media: (...media) => listener.media(...media),
      unreadable: (sequence) => listener.unreadable(sequence),
      ending: (...warning) => listener.ending(...warning),
      ended: (...end) => listener.ended(...end),
      broken: (error) => listener.broken(error),
      over,
    });
    if (signal.aborted) return aborted();
    signal.addEventListener('abort', aborted, { once: true });
    call.write({ request: { $case: 'open', value: open } });
  });
}

interface Ear extends RelayListener {
  ready(ready: RelayReady): void;
  over(): void;
}

function hear(call: Call, ear: Ear): void {
  let isOver = false;
  const over = (error?: Error) => {
    if (isOver) return;
    isOver = true;
    ear.broken(error ?? new Error('the agent ended the stream and did not say why'));
    ear.over();
  };
  call.on('data', ({ response }: RelayResponse) => {
    if (response?.$case === 'media') ear.media(response.value.sequence, response.value.data);
    else if (response?.$case === 'unreadable') ear.unreadable(response.value.sequence);
    else if (response?.$case === 'ready') ear.ready(response.value);
    else if (response?.$case === 'ending') ear.ending(response.value.reason, response.value.inSeconds);
    else if (response?.$case === 'ended') {
      const { reason, message, goingAway, rejected } = response.value;
      ear.ended(fromEndReason(reason), message, goingAway, rejected);
    }
  });
  call.on('error', (error) => {
    // The agent does not learn of an error on this side, such as a failed write, and would keep the slot. For a
    // call that is over this has no effect.
    call.cancel();
    over(error);
  });
  call.on('end', over);
}

function relayOf(call: Call, ready: RelayReady, listen: (listener: RelayListener) => void): Relay {
  return {
    ready,
    listen(listener) {
      listen(listener);
      call.resume();
    },
    send(sequence, data, written) {
      // A write after the end would destroy the call, and with it the waiting close message.
      if (call.writableEnded || call.destroyed) return;
      call.write({ request: { $case: 'media', value: { sequence, data } } }, written);
    },
    pause: () => void call.pause(),
    resume: () => void call.resume(),
    close(reason, fault = '') {
      listen(SILENT);
      if (call.writableEnded || call.destroyed) return;
      call.write({ request: { $case: 'close', value: { reason: toEndReason(reason), fault } } });
      call.end();
      // Remaining messages are discarded, so that the end of the stream is received.
      call.resume();
      const cut = setTimeout(() => call.cancel(), END_MS);
      // After an error it was already cancelled.
      call.once('end', () => clearTimeout(cut));
      call.once('error', () => clearTimeout(cut));
    },
  };
}

function refusalOf(
  code: 'not_found' | 'invalid_input' | 'internal_error',
  message: string,
  reason: SessionEndReason | undefined,
  cause?: Error,
): RelayRefusal {
  return new RelayRefusal(new ApiError(code, message, cause ? { cause } : {}), reason);
}

function unreachable(cause: Error): RelayRefusal {
  const message = 'What holds the session’s slot did not answer. Nothing is billed; open another session.';
  return refusalOf('internal_error', message, 'render_failed', cause);
}

function endedAtOpen(reason: SessionEndReason | undefined, message: string, rejected: string): RelayRefusal {
  // `content_rejected` is a code of jobs and not of an HTTP answer.
  if (rejected) {
    const why = `A content check rejected what the session was opened with: ${rejected}`;
    return refusalOf('invalid_input', why, reason);
  }
  if (reason === 'render_failed') {
    const why = 'The session could not be made ready. Nothing is billed; open another session.';
    return refusalOf('internal_error', why, reason, new Error(message));
  }
  return refusalOf('not_found', 'The session has ended.', reason, message ? new Error(message) : undefined);
}

function brokenAtOpen(error: ServiceError): RelayRefusal {
  if (error.code === status.NOT_FOUND || error.code === status.ALREADY_EXISTS)
    return refusalOf('not_found', 'The session has ended.', undefined, error);
  return unreachable(error);
}
