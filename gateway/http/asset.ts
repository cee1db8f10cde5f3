import type { GatewayContext } from './context.ts';

export interface Asset {
  readonly type: string;
  readonly body: Buffer;
  /** Content-Security-Policy of its page. */
  readonly policy: string;
  /** Seconds for which it may be cached. */
  readonly maxAge: number;
}

/** Answers with a file of a page that is served beside the API. */
export function sendAsset(ctx: GatewayContext, { type, body, policy, maxAge }: Asset): void {
  ctx.set({
    'Content-Security-Policy': policy,
    'Cache-Control': `public, max-age=${maxAge}`,
    'Referrer-Policy': 'no-referrer',
  });
  ctx.type = type;
  ctx.body = body;
}
