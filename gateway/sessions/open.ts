import { CAPABILITIES, CAPABILITY_NAMES, type Capability } from '#common/capabilities.ts';
import { ApiError } from '#common/errors.ts';
import { requireCaller } from '../auth/bearer.ts';
import type { ControlPlane } from '../control/control-plane.ts';
import type { Handler } from '../http/context.ts';
import { faultsOf } from '../http/faults.ts';
import { hasBody, readJson } from '../http/json-body.ts';
import { SESSION_BODIES } from './session-schemas.ts';

export type SessionCapability = {
  [Name in Capability]: (typeof CAPABILITIES)[Name]['shape'] extends 'session' ? Name : never;
}[Capability];

export const SESSION_CAPABILITIES = CAPABILITY_NAMES.filter(
  (name): name is SessionCapability => CAPABILITIES[name].shape === 'session',
);

export interface OpenSessionOptions {
  readonly control: ControlPlane;
  readonly capability: SessionCapability;
  /** Longest time for the body to arrive. */
  readonly bodyTimeoutMs: number;
}

/**
 * POST /<capability>/session. The control plane counts the call and says whether the capability is on. Nothing of this
 * release carries a live stream, so that the answer is never a session: what is off is `capability_unavailable`, what
 * is on `capacity_unavailable`.
 */
export function openSession({ control, capability, bodyTimeoutMs }: OpenSessionOptions): Handler {
  const { title } = CAPABILITIES[capability];
  const schema = SESSION_BODIES[capability];
  return async (ctx) => {
    const caller = requireCaller(ctx.headers.authorization);
    try {
      const body = hasBody(ctx) || !mayBeLeftOut(capability) ? await readJson(ctx, bodyTimeoutMs) : {};
      const { error } = schema.safeParse(body);
      if (error) throw new ApiError('invalid_input', faultsOf(error.issues, body));
    } catch (error) {
      // Who may not ask at all is told that first; and refused calls count as calls.
      if (error instanceof ApiError) await control.authorize(ctx, { caller });
      throw error;
    }
    const { capabilities } = await control.getPricing(ctx, { caller });
    if (!capabilities.find((price) => price.capability === capability)?.enabled)
      throw new ApiError('capability_unavailable', `${title} is switched off at present.`);
    throw new ApiError('capacity_unavailable', `Nothing can carry a session of ${title} at present.`);
  };
}

/** Whether the body has no field that is required. */
export function mayBeLeftOut(capability: SessionCapability): boolean {
  return SESSION_BODIES[capability].safeParse({}).success;
}
