import { CLOSE_CODES, type SessionEndReason } from '@semblance/common/live-session';

/** How a stream ends: for the client, for the books and for the metrics. */
export interface Ending {
  /** The first word of the close reason, and the label of the metric. */
  readonly name: EndingName;
  readonly text: string;
}

interface Kind {
  readonly code: number;
  /** Reason in the usage entry; undefined when the caller ended it. */
  readonly reason?: SessionEndReason;
  /** The client sent something wrong. */
  readonly fault?: true;
}

const KINDS = {
  /** The client closed the socket. */
  closed: { code: 1000 },
  /** The client went without closing it. */
  gone: { code: 1006 },
  protocol_error: { code: 1002, fault: true },
  unsupported_data: { code: CLOSE_CODES.unsupportedData, fault: true },
  invalid_payload: { code: CLOSE_CODES.invalidPayload, fault: true },
  too_fast: { code: CLOSE_CODES.tooFast, fault: true },
  too_big: { code: CLOSE_CODES.tooBig, fault: true },
  going_away: { code: CLOSE_CODES.goingAway, reason: 'cancelled' },
  render_failed: { code: CLOSE_CODES.renderFailed, reason: 'render_failed' },
  session_limit_reached: { code: CLOSE_CODES.limitReached, reason: 'session_limit_reached' },
  timed_out: { code: CLOSE_CODES.timedOut, reason: 'timed_out' },
  cancelled: { code: CLOSE_CODES.cancelled, reason: 'cancelled' },
} as const satisfies Record<string, Kind>;

export type EndingName = keyof typeof KINDS;

export const codeOf = ({ name }: Ending): number => KINDS[name].code;

export function reasonOf({ name }: Ending): SessionEndReason | undefined {
  const kind: Kind = KINDS[name];
  return kind.reason;
}

/** Returns the client's fault for which the stream was closed; undefined if none. */
export function faultOf(ending: Ending): string | undefined {
  const kind: Kind = KINDS[ending.name];
  return kind.fault && closeReason(ending);
}

/** Room for the reason in a close frame, in bytes. */
const MAX_REASON_BYTES = 123;

/** Returns the reason of the close frame: a stable word, then a sentence for people. */
export function closeReason({ name, text }: Ending): string {
  const whole = text ? `${name}: ${text}` : name;
  if (Buffer.byteLength(whole) <= MAX_REASON_BYTES) return whole;
  // Cut between characters, because invalid UTF-8 must not be sent.
  return new TextDecoder().decode(Buffer.from(whole).subarray(0, MAX_REASON_BYTES)).replace(/\uFFFD+$/, '');
}

/**
 * Returns the ending of a stream that another service has ended. Without a reason the caller ended it, and the
 * gateway did not know yet.
 * @param goingAway that service's process ends, for a reason outside the session
 */
export function endingFor(reason: SessionEndReason | undefined, text: string, goingAway = false): Ending {
  if (goingAway) return { name: 'going_away', text };
  if (reason === undefined) return { name: 'closed', text };
  // Nothing was streamed; for the socket this is a timeout.
  return { name: reason === 'no_stream' ? 'timed_out' : reason, text };
}

/** Returns the ending for an error that `ws` found in the client's frames. */
export function endingOfError(error: Error): Ending {
  const { code = '' } = error as NodeJS.ErrnoException;
  if (code === 'WS_ERR_UNSUPPORTED_MESSAGE_LENGTH') return { name: 'too_big', text: '' };
  if (code.startsWith('WS_ERR_TOO_MANY_')) return { name: 'too_fast', text: '' };
  if (code === 'WS_ERR_INVALID_UTF8') return { name: 'invalid_payload', text: '' };
  return code.startsWith('WS_ERR_') ? { name: 'protocol_error', text: '' } : { name: 'gone', text: '' };
}
