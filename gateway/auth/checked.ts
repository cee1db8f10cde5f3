import { ApiError } from '@semblance/common/errors';
import type { ControlPlane } from '../control/control-plane.ts';
import type { GatewayContext } from '../http/context.ts';
import { requireCaller } from './bearer.ts';

/**
 * Runs the check of a request. With an invalid key the caller learns only that, not the faults of the request.
 * Refused calls count as calls.
 */
export async function checked<T>(ctx: GatewayContext, control: ControlPlane, check: () => T): Promise<T> {
  try {
    return check();
  } catch (error) {
    if (error instanceof ApiError) await control.authorize(ctx, { caller: requireCaller(ctx) });
    throw error;
  }
}
