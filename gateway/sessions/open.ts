import { ApiError } from '@semblance/common/errors';
import { DEFAULT_LIVE_PROMPT } from '@semblance/common/live-prompt';
import { microsToUsd } from '@semblance/common/money';
import { CAPABILITIES, CAPABILITY_NAMES, type Capability } from '@semblance/engine-api/capabilities';
import type { CallerBeforeBody } from '../auth/known-keys.ts';
import type { ControlPlane } from '../control/control-plane.ts';
import { whileClientWaits } from '../http/client-gone.ts';
import type { Handler } from '../http/context.ts';
import { faultsOf } from '../http/faults.ts';
import { hasBody, readJson } from '../http/json-body.ts';
import { streamUrl } from '../streams/paths.ts';
import { DEFAULT_VOICE_MINUTES, SESSION_BODIES } from './session-schemas.ts';

export type SessionCapability = {
  [Name in Capability]: (typeof CAPABILITIES)[Name]['shape'] extends 'session' ? Name : never;
}[Capability];

export const SESSION_CAPABILITIES = CAPABILITY_NAMES.filter(
  (name): name is SessionCapability => CAPABILITIES[name].shape === 'session',
);

export interface OpenSessionOptions {
  readonly callerOf: CallerBeforeBody;
  readonly control: ControlPlane;
  readonly capability: SessionCapability;
  /** Longest time for the body to arrive, in ms. */
  readonly bodyTimeoutMs: number;
  /** Origin at which clients reach the gateway. */
  readonly publicUrl: string;
}

/**
 * Handles POST /<capability>/session. The body is validated here. The control plane checks the voice, the balance
 * and the slot, and answers when the session is ready to be connected to.
 */
export function openSession(options: OpenSessionOptions): Handler {
  const { callerOf, control, capability, bodyTimeoutMs, publicUrl } = options;
  const schema = SESSION_BODIES[capability];
  return async (ctx) => {
    const caller = await callerOf(ctx);
    const wanted = await readWanted().catch(async (error) => {
      // The key is checked before a fault is reported, and refused calls count as calls.
      if (error instanceof ApiError) await control.authorize(ctx, { caller });
      throw error;
    });
    // Nobody else has the session's token, so without its client it would only block slot and balance.
    const opened = await whileClientWaits(ctx, (signal) =>
      control.openSession(ctx, { caller, capability, ...wanted }, signal),
    ).catch((error) => {
      throw asRefusalOf(capability, error);
    });
    ctx.set('Cache-Control', 'no-store');
    ctx.body = {
      session_id: opened.sessionId,
      stream_url: streamUrl(publicUrl, opened.sessionId),
      session_token: opened.sessionToken,
      ...(capability === 'full-live-swap' ? { prompt: wanted.prompt } : {}),
      max_duration_sec: opened.maxDurationSeconds,
      max_cost_usd: microsToUsd(opened.maxCostMicros),
    };

    async function readWanted() {
      const body = hasBody(ctx) || !mayBeLeftOut(capability) ? await readJson(ctx, bodyTimeoutMs) : {};
      const { data, error } = schema.safeParse(body);
      if (error) throw new ApiError('invalid_input', faultsOf(error.issues, body));
      return wantedIn(capability, data);
    }
  };
}

/** `capacity_warming` is a code of Voice Swap only; other capabilities answer `capacity_unavailable`. */
function asRefusalOf(capability: SessionCapability, error: unknown): unknown {
  if (!(error instanceof ApiError) || error.code !== 'capacity_warming' || capability === 'voice')
    return error;
  return new ApiError('capacity_unavailable', error.message, { cause: error });
}

/** Returns the request with its defaults filled in. */
function wantedIn(
  capability: SessionCapability,
  body: {
    duration_minutes?: number | null | undefined;
    prompt?: string | null | undefined;
    voice_profile_id?: string | null | undefined;
  },
) {
  return {
    durationMinutes: body.duration_minutes ?? DEFAULT_VOICE_MINUTES,
    prompt: capability === 'full-live-swap' ? (body.prompt ?? DEFAULT_LIVE_PROMPT) : '',
    voiceId: body.voice_profile_id ?? undefined,
  };
}

/** Returns whether the body has no required field. */
export function mayBeLeftOut(capability: SessionCapability): boolean {
  return SESSION_BODIES[capability].safeParse({}).success;
}
