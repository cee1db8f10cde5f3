/**
 * What webhook endpoints may be and get. The gateway checks these rules first, for the client's sake; the control plane is
 * the authority.
 */

/** Events that an endpoint may choose. */
export const ENDPOINT_EVENTS = [
  'job.succeeded',
  'job.failed',
  'batch.finished',
  'balance.low',
  'cap.reached_80',
] as const;

/** Event that is sent on demand, whatever the endpoint chose. */
export const TEST_EVENT = 'test';

/** Most endpoints of an account. */
export const MAX_ENDPOINTS = 16;

/** Longest description, in characters. */
export const MAX_DESCRIPTION = 200;

export function isEndpointEvent(text: string): text is (typeof ENDPOINT_EVENTS)[number] {
  return (ENDPOINT_EVENTS as readonly string[]).includes(text);
}
