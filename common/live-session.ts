/**
 * States what the parts that carry a live session agree on: why one ends, as usage entries and LiveSessions say it,
 * and how the socket of a client is closed then. docs/guide/integrator/live-sessions.md has the same for clients.
 */
import { EndReason } from '@semblance/proto/semblance/live/v1/live';

export const END_REASONS = [
  'session_limit_reached',
  'no_stream',
  'render_failed',
  'timed_out',
  'cancelled',
] as const;

/** Undefined: the caller closed it. */
export type SessionEndReason = (typeof END_REASONS)[number];

const ON_THE_WIRE = {
  session_limit_reached: EndReason.END_REASON_SESSION_LIMIT_REACHED,
  no_stream: EndReason.END_REASON_NO_STREAM,
  render_failed: EndReason.END_REASON_RENDER_FAILED,
  timed_out: EndReason.END_REASON_TIMED_OUT,
  cancelled: EndReason.END_REASON_CANCELLED,
} as const satisfies Record<SessionEndReason, EndReason>;

export function toEndReason(reason: SessionEndReason | undefined): EndReason {
  return reason === undefined ? EndReason.END_REASON_UNSPECIFIED : ON_THE_WIRE[reason];
}

export function fromEndReason(reason: EndReason): SessionEndReason | undefined {
  return END_REASONS.find((name) => ON_THE_WIRE[name] === reason);
}

/** Close codes of the socket (RFC 6455, section 7.4; those from 4000 on are this service's own). */
export const CLOSE_CODES = {
  /** The client sent a kind of frame that is not of the protocol. */
  unsupportedData: 1003,
  /** Media that cannot be: half a sample, something that is no picture. */
  invalidPayload: 1007,
  /** Faster than real time for longer than the allowance. */
  tooFast: 1008,
  tooBig: 1009,
  /** `render_failed`. */
  renderFailed: 1011,
  /** The gateway is ending. */
  goingAway: 1001,
  /** `session_limit_reached`: the granted seconds are used up. */
  limitReached: 4001,
  /** `timed_out`: nothing came for too long, or the client read nothing for too long. */
  timedOut: 4002,
  /** `cancelled`: by the owner of the service. */
  cancelled: 4003,
} as const;
