/**
 * End reasons of live sessions, shared by all services that carry one, as usage entries and LiveSessions show them.
 * This module also has the close codes of the client's socket. docs/guide/integrator/live-sessions.md lists both
 * for clients.
 */
import { EndReason } from '@semblance/proto/semblance/live/v1/live';

export const END_REASONS = [
  'session_limit_reached',
  'no_stream',
  'render_failed',
  'timed_out',
  'cancelled',
] as const;

/** Why a live session ended. Undefined in its place: the caller closed it. */
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

/** Close codes of the socket (RFC 6455, section 7.4). Codes from 4000 on are this service's own. */
export const CLOSE_CODES = {
  /** The client sent a kind of frame that the protocol does not have. */
  unsupportedData: 1003,
  /** The media is invalid: half a sample, or bytes that are no picture. */
  invalidPayload: 1007,
  /** The client sent faster than real time for longer than the allowance. */
  tooFast: 1008,
  tooBig: 1009,
  /** End reason `render_failed`. */
  renderFailed: 1011,
  /** The gateway is shutting down. */
  goingAway: 1001,
  /** End reason `session_limit_reached`: the granted seconds are used up. */
  limitReached: 4001,
  /** End reason `timed_out`: nothing came for too long, or the client read nothing for too long. */
  timedOut: 4002,
  /** End reason `cancelled`: the owner of the service ended the session. */
  cancelled: 4003,
} as const;
