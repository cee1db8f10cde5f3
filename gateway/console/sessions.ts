import { ApiError } from '@semblance/common/errors';
import type { ConsoleSession } from '@semblance/proto/semblance/control/v1/control';
import { requireCaller } from '../auth/bearer.ts';
import { checked } from '../auth/checked.ts';
import type { ControlPlane } from '../control/control-plane.ts';
import type { GatewayContext, Handler } from '../http/context.ts';
import { isOwnPage, setConsoleCookie } from './cookie.ts';

export interface ConsoleOptions {
  readonly control: ControlPlane;
  /** Origin at which clients reach the gateway. */
  readonly publicUrl: string;
}

const SESSION_ID = /^(?:con-[0-9a-z]{26}|current)$/;

/** Handles POST /console/sessions: exchanges the key of the request for a cookie. */
export function openConsoleSession({ control, publicUrl }: ConsoleOptions): Handler {
  return async (ctx) => {
    const caller = requireCaller(ctx);
    // Else a page of somebody else could sign a browser in to an account of its own.
    await checked(ctx, control, () => {
      if (!isOwnPage(ctx.req, publicUrl))
        throw new ApiError('invalid_input', 'Only pages of this service open sessions of the console.');
    });
    const agent = ctx.headers['user-agent'];
    const { session, token } = await control.openConsoleSession(ctx, { caller, agent });
    setConsoleCookie(ctx, publicUrl, token);
    ctx.status = 201;
    answer(ctx, sessionRecord(present(session), true));
  };
}

/** Handles GET /console/sessions. */
export function listConsoleSessions({ control }: ConsoleOptions): Handler {
  return async (ctx) => {
    const { sessions } = await control.listConsoleSessions(ctx, { caller: requireCaller(ctx) });
    answer(ctx, { sessions: sessions.map((session) => sessionRecord(session)) });
  };
}

/** Handles DELETE /console/sessions/{console_session_id}. */
export function endConsoleSession({ control, publicUrl }: ConsoleOptions): Handler {
  return async (ctx) => {
    const caller = requireCaller(ctx);
    const sessionId = await checked(ctx, control, () => {
      const id = String(ctx.params.console_session_id);
      if (!SESSION_ID.test(id)) throw new ApiError('not_found', 'There is no such session of the console.');
      return id;
    });
    const session = present((await control.endConsoleSession(ctx, { caller, sessionId })).session);
    if (session.current) setConsoleCookie(ctx, publicUrl, undefined);
    answer(ctx, { session_id: session.sessionId, ended: true });
  };
}

function sessionRecord(session: ConsoleSession, current = session.current) {
  return {
    session_id: session.sessionId,
    key_id: session.keyId,
    created_at: session.createdAt,
    last_used_at: session.usedAt,
    expires_at: session.expiresAt,
    address: session.address ?? null,
    browser: session.agent ?? null,
    current,
  };
}

function answer(ctx: GatewayContext, body: object): void {
  ctx.set('Cache-Control', 'no-store');
  ctx.body = body;
}

function present(session: ConsoleSession | undefined): ConsoleSession {
  if (!session) throw new ApiError('internal_error', 'The service failed. Try again.', { upstream: true });
  return session;
}
