import { CAPABILITIES } from '@semblance/engine-api/capabilities';
import type { Operation } from '../openapi/operation.ts';
import { mayBeLeftOut, type SessionCapability } from './open.ts';
import { SESSION_BODIES, SESSION_RECORDS } from './session-schemas.ts';

interface Facts extends Pick<Operation, 'id' | 'errors'> {
  readonly bodyExample: unknown;
  readonly example: unknown;
}

const OPENED = {
  session_id: 'ses-01k9x3v7m2q8r5t1w4y6z0abcd',
  stream_url: 'wss://example.com/streams/ses-01k9x3v7m2q8r5t1w4y6z0abcd',
  session_token: '3q2-7wAAAAB8xk0c5hYl1Q',
};

const FACTS: Record<SessionCapability, Facts> = {
  'full-live-swap': {
    id: 'openLiveSwapPro',
    bodyExample: { duration_minutes: 5 },
    example: { ...OPENED, prompt: 'Give the person a beard.', max_duration_sec: 300, max_cost_usd: 3 },
    errors: [
      'invalid_input',
      'insufficient_balance',
      'capability_unavailable',
      'at_capacity',
      'capacity_unavailable',
    ],
  },
  voice: {
    id: 'openVoiceSwap',
    bodyExample: { duration_minutes: 10 },
    example: { ...OPENED, max_duration_sec: 600, max_cost_usd: 0.6 },
    errors: [
      'invalid_input',
      'insufficient_balance',
      'capability_unavailable',
      'at_capacity',
      'capacity_unavailable',
      'capacity_warming',
    ],
  },
};

export function openSessionOperation(capability: SessionCapability): Operation {
  const { id, errors, bodyExample, example } = FACTS[capability];
  return {
    id,
    tag: 'Sessions',
    summary: `${CAPABILITIES[capability].title}: open a session`,
    description:
      'The answer comes once a slot that can carry the stream is held. Nothing is debited: the balance must cover `max_cost_usd`, and closing the socket charges for the seconds streamed. Connect to `{stream_url}?session_token={session_token}` within a minute; a session that nobody connects to ends by itself and costs nothing. The socket: `connectStream` below. Fields that are not known are ignored, `null` for an optional field counts as left out, and an Idempotency-Key has no effect.',
    key: 'required',
    body: {
      type: 'application/json',
      schema: SESSION_BODIES[capability],
      example: bodyExample,
      optional: mayBeLeftOut(capability),
    },
    answers: [
      { status: 200, description: 'The session is open.', schema: SESSION_RECORDS[capability], example },
    ],
    errors: errors ?? [],
  };
}
