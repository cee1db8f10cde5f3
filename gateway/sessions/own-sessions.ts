import { ApiError } from '@semblance/common/errors';
import { microsToUsd } from '@semblance/common/money';
import { CAPABILITIES, isCapability } from '@semblance/engine-api/capabilities';
import type { Session } from '@semblance/proto/semblance/control/v1/control';
import { z } from 'zod';
import { requireCaller } from '../auth/bearer.ts';
import { checked } from '../auth/checked.ts';
import type { ControlPlane } from '../control/control-plane.ts';
import type { Handler } from '../http/context.ts';
import { queryOf } from '../http/query.ts';
import { statusSchema } from '../jobs/job-schema.ts';
import type { Operation } from '../openapi/operation.ts';
import { isoTime, usd } from '../openapi/parts.ts';
import { pageLimit, parseQuery } from '../usage/query.ts';
import { usageReason } from '../usage/usage.ts';
import { SESSION_CAPABILITIES } from './open.ts';

interface Options {
  readonly control: ControlPlane;
}

const SESSION_ID = /^ses-[0-9a-z]{26}$/;
const sessionId = z.string('must be given once').regex(SESSION_ID, 'must be the id of a session');

export const sessionsQuery = z.object({
  open: z.enum(['true', 'false'], 'must be true or false').optional().meta({
    default: 'false',
    description: '`true`: only sessions that have not ended. Left out: `false`.',
  }),
  limit: pageLimit,
  before: sessionId.optional().meta({
    description:
      'The id of a session: those opened before it. With the last one of a page it answers the next page. Left out: the newest.',
  }),
});

/** Handles GET /sessions. */
export function listSessions({ control }: Options): Handler {
  return async (ctx) => {
    const caller = requireCaller(ctx);
    const request = await checked(ctx, control, () => {
      const { open, limit, before } = parseQuery(sessionsQuery, queryOf(ctx));
      return { caller, open: open === 'true', limit, before };
    });
    const { sessions } = await control.listSessions(ctx, request);
    ctx.set('Cache-Control', 'no-store');
    ctx.body = sessions.map(sessionRecord);
  };
}

/** Handles DELETE /sessions/{session_id}. */
export function endSession({ control }: Options): Handler {
  return async (ctx) => {
    const caller = requireCaller(ctx);
    const asked = await checked(ctx, control, () => {
      const { data } = sessionId.safeParse(ctx.params.session_id);
      if (data === undefined) throw new ApiError('not_found', 'There is no such session.');
      return data;
    });
    const { session } = await control.endSession(ctx, { caller, sessionId: asked });
    if (!session) throw new ApiError('internal_error', 'The service failed. Try again.', { upstream: true });
    ctx.set('Cache-Control', 'no-store');
    ctx.body = sessionRecord(session);
  };
}

/** Returns a session as the API shows it. */
function sessionRecord(session: Session) {
  const { capability, chargedMicros } = session;
  return {
    session_id: session.sessionId,
    capability,
    feature: isCapability(capability) ? CAPABILITIES[capability].feature : capability,
    status: session.status,
    created_at: session.createdAt,
    ended_at: session.endedAt ?? null,
    max_duration_sec: session.maxDurationSeconds,
    max_cost_usd: microsToUsd(session.maxCostMicros),
    streamed_sec: Number(session.streamedMs) / 1000,
    charged_usd: chargedMicros === undefined ? null : microsToUsd(chargedMicros),
    reason: session.reason ?? null,
  };
}

const sessionSchema = z
  .object({
    session_id: z.string().meta({ description: 'Id of the session.' }),
    capability: z.enum(SESSION_CAPABILITIES).meta({ description: 'Path segment of the opening.' }),
    feature: z
      .enum(SESSION_CAPABILITIES.map((name) => CAPABILITIES[name].feature))
      .meta({ description: 'Name of the capability.' }),
    status: statusSchema.meta({
      description:
        '`queued`: waits for its client. `processing`: the client is connected. `succeeded`: ended after converted frames. `failed`: ended without.',
    }),
    created_at: isoTime('When it was opened.'),
    ended_at: isoTime('When it ended; null until then.').nullable(),
    max_duration_sec: z.int().min(1).meta({ description: 'Seconds after which the stream stops.' }),
    max_cost_usd: usd('The block that is reserved until the session ends.'),
    streamed_sec: z
      .number()
      .min(0)
      .meta({ description: 'Seconds from the first to the last converted frame.' }),
    charged_usd: usd('What the session cost; null until it has ended.').nullable(),
    reason: usageReason
      .nullable()
      .meta({ description: 'Why it ended, as in usage entries; null where there is nothing to explain.' }),
  })
  .meta({ id: 'Session' });

const EXAMPLE = {
  session_id: 'ses-01k9x3v7m2q8r5t1w4y6z0abcd',
  capability: 'voice',
  feature: 'voice_swap',
  status: 'processing',
  created_at: '2026-01-31T09:30:00.123Z',
  ended_at: null,
  max_duration_sec: 600,
  max_cost_usd: 0.6,
  streamed_sec: 42.5,
  charged_usd: null,
  reason: null,
};

export const listSessionsOperation: Operation = {
  id: 'listSessions',
  tag: 'Sessions',
  summary: 'List live sessions, the newest first',
  description: 'Sessions of the account, open ones and those that have ended.',
  key: 'required',
  query: sessionsQuery,
  answers: [
    { status: 200, description: 'The sessions.', schema: z.array(sessionSchema), example: [EXAMPLE] },
  ],
  errors: ['invalid_input'],
};

export const endSessionOperation: Operation = {
  id: 'endSession',
  tag: 'Sessions',
  summary: 'End a live session',
  description:
    'Ends the session within seconds: its socket is closed, what was streamed is charged, and the rest of the block is free. Repeating the call, or ending a session that has ended, changes nothing and answers the session as it stands.',
  key: 'required',
  path: z.object({
    session_id: z.string().meta({
      pattern: SESSION_ID.source,
      description: 'Id of the session, as the opening answered it.',
    }),
  }),
  answers: [
    { status: 200, description: 'The session as it stands.', schema: sessionSchema, example: EXAMPLE },
  ],
  errors: ['not_found'],
};
