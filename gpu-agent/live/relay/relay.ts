import { type ServerDuplexStream, status } from '@grpc/grpc-js';
import { describeError } from '@semblance/common/errors';
import { fromEndReason, toEndReason } from '@semblance/common/live-session';
import type { Logger } from '@semblance/common/logging';
import type { LiveMedia } from '@semblance/engine-api/live-engine';
import type {
  RelayOpen,
  RelayReady,
  RelayRequest,
  RelayResponse,
} from '@semblance/proto/semblance/live/v1/live';
import type { ConnectedSession, LiveSessions, Warning } from '../sessions/live-sessions.ts';
import { ConnectRefusedError } from '../sessions/refusals.ts';
import type { PictureSampler, SamplePictures } from '../sessions/sampled-pictures.ts';
import type { SessionEnd } from '../sessions/session-table.ts';
import { createFlowPump } from './flow-pump.ts';
import { createPump, type Pump, type PumpOptions } from './pump.ts';

/** Time for a relay to name its session, in ms. */
const OPEN_WITHIN_MS = 10_000;

const REFUSAL = {
  unknown: status.NOT_FOUND,
  ended: status.NOT_FOUND,
  'wrong-ticket': status.UNAUTHENTICATED,
  taken: status.ALREADY_EXISTS,
  'no-lease': status.UNAVAILABLE,
} as const satisfies Record<ConnectRefusedError['code'], status>;

export type RelayCall = ServerDuplexStream<RelayRequest, RelayResponse>;

export interface RelayOptions {
  readonly sessions: LiveSessions;
  readonly incarnation: string;
  readonly samplePictures: SamplePictures;
  readonly logger: Logger;
}

/**
 * Serves one relay: its session, the readiness of the session, then media in both directions until either side ends
 * it.
 */
export function serveRelay(call: RelayCall, options: RelayOptions): void {
  const { logger } = options;
  let session: ConnectedSession | undefined;
  let pump: Pump | undefined;
  let sampler: PictureSampler | undefined;
  let warning: Warning | undefined;
  /** Whether nothing more is sent to the caller. */
  let over = false;

  const openTimer = setTimeout(() => refuse(status.DEADLINE_EXCEEDED, 'no open came'), OPEN_WITHIN_MS);

  function stop(): boolean {
    if (over) return false;
    over = true;
    clearTimeout(openTimer);
    pump?.stop();
    sampler?.stop();
    // Further messages are read and discarded, so that the end of the stream is noticed.
    call.resume();
    return true;
  }
  /** Resolves when the transport has taken the message. */
  function write(response: RelayResponse['response']): Promise<void> {
    return new Promise((resolve) => call.write({ response }, () => resolve()));
  }
  function refuse(code: status, details: string): void {
    if (stop()) call.emit('error', { code, details });
  }
  /** Handles an end of the session that its relay did not cause. */
  function onEnd({ reason, message, goingAway = false, rejected = '' }: SessionEnd): void {
    if (!stop()) return;
    const value = { reason: toEndReason(reason), message: message.slice(0, 120), goingAway, rejected };
    call.write({ response: { $case: 'ended', value } });
    call.end();
  }
  /** Warns the caller, but not before the stream is ready, when nobody listens. */
  function onWarning(given: Warning): void {
    warning = given;
    if (over || !pump) return;
    const inSeconds = Math.max(0, Math.round((given.at - performance.now()) / 1000));
    call.write({ response: { $case: 'ending', value: { reason: given.reason, inSeconds } } });
  }
  async function endedByCaller(end: SessionEnd): Promise<void> {
    if (!stop()) return;
    await session?.end(end);
    // The end of the call tells the caller that the slot is free.
    call.end();
  }

  function open(asked: RelayOpen): void {
    clearTimeout(openTimer);
    if (asked.incarnation !== options.incarnation) {
      refuse(status.FAILED_PRECONDITION, `this process is ${options.incarnation}`);
      return;
    }
    try {
      session = options.sessions.connect(asked.sessionId, asked.ticket, { onEnd, onWarning });
    } catch (error) {
      if (!(error instanceof ConnectRefusedError)) throw error;
      // A relay that comes too late learns why its session ended.
      if (error.end) onEnd(error.end);
      else refuse(REFUSAL[error.code], error.message);
      return;
    }
    call.pause();
    const connected = session;
    // Messages wait until the stream is ready. A stream that never becomes ready ends its session, and `onEnd`
    // reports that.
    connected.stream.then((stream) => begin(connected, stream)).catch(() => {});
  }

  function begin(connected: ConnectedSession, stream: LiveMedia): void {
    if (over) return;
    if (stream.format.kind === 'picture') sampler = options.samplePictures(connected);
    const pumped: PumpOptions = {
      delivery: connected.delivery,
      onConverting: (message) => sampler?.offer(message),
      maxMessageBytes: stream.maxMessageBytes,
      send(sequence, data) {
        const media = { sequence, data: Buffer.from(data.buffer, data.byteOffset, data.byteLength) };
        return write({ $case: 'media', value: media });
      },
      refuse: (sequence) => write({ $case: 'unreadable', value: { sequence } }),
      pause: () => call.pause(),
      resume: () => call.resume(),
      onReceived: connected.received,
      onDropped: connected.dropped,
      onConverted: connected.converted,
      onFailed(error) {
        logger.warn({ err: error, session: connected.id }, `the stream failed: ${describeError(error)}`);
        void connected.end({ reason: 'render_failed', message: 'the stream could not be converted' });
      },
    };
    pump = 'transform' in stream ? createPump(stream, pumped) : createFlowPump(stream, pumped);
    call.write({ response: { $case: 'ready', value: readyOf(stream) } });
    if (warning) onWarning(warning);
    call.resume();
  }

  call.on('data', ({ request }: RelayRequest) => {
    if (over || request === undefined) return;
    if (request.$case === 'media') {
      if (pump) pump.push(request.value.sequence, request.value.data);
      else refuse(status.INVALID_ARGUMENT, 'media came before open');
    } else if (request.$case === 'close') {
      const reason = fromEndReason(request.value.reason);
      const fault = request.value.fault.slice(0, 123);
      void endedByCaller({ reason, message: 'the gateway closed the relay', ...(fault && { fault }) });
    } else if (session) {
      void endedByCaller({ reason: 'render_failed', message: 'the relay was opened twice' });
    } else open(request.value);
  });
  const gone = () => void endedByCaller({ reason: 'timed_out', message: 'the gateway is gone' });
  // An end without `close` is the first sign of a broken connection.
  call.on('end', gone);
  call.on('cancelled', gone);
  call.on('close', gone);
  call.on('error', gone);
}

function readyOf(stream: LiveMedia): RelayReady {
  const { firstFrame, maxMessageBytes, format } = stream;
  const changeable = stream.change ? [format.kind === 'voice' ? 'voice_profile_id' : 'prompt'] : [];
  if (format.kind === 'voice') {
    const { sampleRate, chunkFrames } = format;
    return {
      firstFrame,
      maxMessageBytes,
      changeable,
      format: { $case: 'voice', value: { sampleRate, chunkFrames } },
    };
  }
  const { kind: _, ...picture } = format;
  return { firstFrame, maxMessageBytes, changeable, format: { $case: 'picture', value: picture } };
}
