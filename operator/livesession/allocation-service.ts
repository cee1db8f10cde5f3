import { setTimeout as delay } from 'node:timers/promises';
import { status } from '@grpc/grpc-js';
import { GrpcError, type GrpcService, unary } from '@semblance/common/grpc/server';
import type { Logger } from '@semblance/common/logging';
import {
  type AllocateRequest,
  AllocationServiceService,
} from '@semblance/proto/semblance/operator/v1/operator';
import { z } from 'zod';
import type { LiveTerm } from './live-term.ts';

const text = (max: number) => z.string().max(max);

/** Longest wait to lead, in ms. The Lease names an operator a moment before it knows that it leads. */
const LEADS_WITHIN_MS = 300;

/** What can become a LiveSession and a claim. */
const ALLOCATION = z.object({
  sessionId: z.string().regex(/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/, 'must be a name of a resource'),
  capability: z.enum(['voice', 'full-live-swap']),
  account: z.string().regex(/^[a-z0-9_-]{0,63}$/, 'must be an account'),
  maxDurationSeconds: z.number().int().min(1).max(14_400),
  connectDeadlineSeconds: z.number().int().min(1).max(3_600),
  ticketSha256: z.custom<Uint8Array>((value) => value instanceof Uint8Array && value.length === 32, {
    error: 'must have 32 bytes',
  }),
  settings: z.record(text(64), text(65_536)),
  inputs: z.record(text(64), text(512).startsWith('api/')),
});

/** The allocation service. Every operator serves it, but only the leader answers. */
export function allocationService(options: {
  /** Returns the present term; undefined while this operator does not lead. */
  readonly live: () => LiveTerm | undefined;
  readonly internalToken?: string | undefined;
  readonly logger: Logger;
}): GrpcService {
  return {
    name: 'semblance.operator.v1.AllocationService',
    definition: AllocationServiceService,
    token: options.internalToken,
    implementation: {
      allocate: unary(options.logger, async (request: AllocateRequest, { signal, traceparent }) => {
        const fault = ALLOCATION.safeParse(request).error?.issues[0];
        if (fault) {
          throw new GrpcError(status.INVALID_ARGUMENT, `${fault.path.join('.')}: ${fault.message}`);
        }
        const until = performance.now() + LEADS_WITHIN_MS;
        while (!options.live() && performance.now() < until) await delay(10);
        const live = options.live();
        if (!live) throw new GrpcError(status.UNAVAILABLE, 'This operator does not lead.');
        return live.allocate(request, { signal, traceparent });
      }),
    },
  };
}
