import { microsToUsd } from '#common/money.ts';
import type { CapabilityPrice, GetPricingResponse } from '#proto/semblance/control/v1/control.ts';
import { optionalCaller } from '../auth/bearer.ts';
import type { ControlPlane } from '../control/control-plane.ts';
import type { Handler } from '../http/context.ts';

/** GET /pricing: the public rate card, or the caller's own when a key is sent. */
export function readPricing({ control }: { readonly control: ControlPlane }): Handler {
  return async (ctx) => {
    const caller = optionalCaller(ctx.headers.authorization);
    ctx.set('Cache-Control', 'no-store');
    ctx.vary('Authorization');
    ctx.body = rateCard(await control.getPricing(ctx, { caller }));
  };
}

/** The rate card as the API answers it: amounts in USD, `when` the parameter values a rate is for. */
export function rateCard(pricing: GetPricingResponse) {
  return {
    currency: pricing.currency,
    version: Number(pricing.version),
    effective_at: pricing.effectiveAt,
    capabilities: pricing.capabilities.map(capabilityPrice),
  };
}

function capabilityPrice(price: CapabilityPrice) {
  return {
    capability: price.capability,
    feature: price.feature,
    enabled: price.enabled,
    unit: price.unit,
    rates: price.rates.map(({ when, rateMicros }) => ({ when, rate_usd: microsToUsd(rateMicros) })),
    minimum_usd: microsToUsd(price.minimumMicros),
    hold: { units: price.hold?.units ?? 0 },
  };
}
