import { microsToUsd } from '@semblance/common/money';
import { CAPABILITIES, CAPABILITY_NAMES } from '@semblance/engine-api/capabilities';
import type { CapabilityPrice, GetPricingResponse } from '@semblance/proto/semblance/control/v1/control';
import { z } from 'zod';
import { ANONYMOUS, isAnonymous, requireCaller } from '../auth/bearer.ts';
import type { ControlPlane } from '../control/control-plane.ts';
import type { GatewayContext, Handler } from '../http/context.ts';
import type { Operation } from '../openapi/operation.ts';
import { count, isoTime, usd } from '../openapi/parts.ts';

export interface PricingOptions {
  readonly control: ControlPlane;
  /** Time for which the public card is answered again without a question, in ms. */
  readonly keepMs: number;
}

/** Handles GET /pricing: the public rate card, or the caller's own when a key is sent. */
export function readPricing({ control, keepMs }: PricingOptions): Handler {
  let kept: { readonly card: Promise<GetPricingResponse>; readonly until: number } | undefined;

  function publicCard(ctx: GatewayContext): Promise<GetPricingResponse> {
    if (kept && performance.now() < kept.until) return kept.card;
    const card = control.getPricing(ctx, { caller: ANONYMOUS });
    const asked = { card, until: performance.now() + keepMs };
    kept = asked;
    card.catch(() => {
      // The next request asks again.
      if (kept === asked) kept = undefined;
    });
    return card;
  }

  return async (ctx) => {
    ctx.set('Cache-Control', 'no-store');
    ctx.vary('Authorization, Cookie');
    ctx.body = rateCard(
      await (isAnonymous(ctx) ? publicCard(ctx) : control.getPricing(ctx, { caller: requireCaller(ctx) })),
    );
  };
}

/** Returns the rate card as the API answers it: amounts in USD, and in `when` the parameter values of a rate. */
function rateCard(pricing: GetPricingResponse) {
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
    rates: price.rates.map(({ when, rateMicros }) => ({
      when: asSubmitted(when),
      rate_usd: microsToUsd(rateMicros),
    })),
    minimum_usd: microsToUsd(price.minimumMicros),
    hold: { units: price.hold?.units ?? 0 },
    ...(price.previewMicros !== undefined && { preview_usd: microsToUsd(price.previewMicros) }),
  };
}

/** Returns parameter values in the types that a submit takes: a resolution in lines is a number. */
function asSubmitted(when: Readonly<Record<string, string>>): Record<string, string | number> {
  const { output_resolution_p: lines, ...rest } = when;
  return lines === undefined ? rest : { ...rest, output_resolution_p: Number(lines) };
}

const features = CAPABILITY_NAMES.map((name) => CAPABILITIES[name].feature);

const conditionValue = z
  .union([z.string(), z.int()])
  .meta({ id: 'RateConditionValue', description: 'Value of a parameter, in the type of the submit.' });

const rateCardSchema = z
  .object({
    currency: z.literal('USD').meta({ description: 'Currency of all amounts.' }),
    version: count('rates ever set; it grows with each.'),
    effective_at: isoTime('When the newest rate on the card came into effect.'),
    capabilities: z
      .array(
        z
          .object({
            capability: z.enum(CAPABILITY_NAMES).meta({ description: 'Path segment of the submit.' }),
            feature: z.enum(features).meta({ description: 'Name of the capability.' }),
            enabled: z.boolean().meta({ description: 'False: it is switched off, and submits are refused.' }),
            unit: z.enum(['image', 'second', 'minute']).meta({ description: 'What a rate is for one of.' }),
            rates: z
              .array(
                z
                  .object({
                    when: z.record(z.string(), conditionValue).meta({
                      description:
                        'Parameter values that the rate is for, in the types of the submit; empty: any. A size counts as measured on the output: the smallest of 480, 720 and 1080 lines, or of `1k` and `2k`, that covers it, and never more than the submit asked for.',
                    }),
                    rate_usd: usd('Price of one unit.'),
                  })
                  .meta({ id: 'Rate' }),
              )
              .meta({ description: 'The first whose `when` fits counts.' }),
            minimum_usd: usd('Least that a job is charged; 0 of live sessions.'),
            hold: z
              .object({
                units: z.number().min(0).meta({
                  description:
                    'Units that a submit is taken to have; 0 of live sessions, which reserve a block.',
                }),
              })
              .meta({ id: 'HoldRule' })
              .meta({
                description:
                  'The hold of a submit is max(minimum_usd, rate × units), at the highest rate that its output can have.',
              }),
            preview_usd: usd(
              'Price of a frame preview (`POST /preview`); absent where there are none.',
            ).optional(),
          })
          .meta({ id: 'CapabilityPrice' }),
      )
      .meta({ description: 'Prices by capability.' }),
  })
  .meta({ id: 'RateCard' });

export const readPricingOperation: Operation = {
  id: 'getPricing',
  tag: 'Account',
  summary: 'Read the rate card',
  description: 'The public card; with a key, the rates of its account. A key that is sent must be valid.',
  key: 'optional',
  answers: [
    {
      status: 200,
      description: 'The rate card.',
      schema: rateCardSchema,
      example: {
        currency: 'USD',
        version: 8,
        effective_at: '2026-01-01T00:00:00.000Z',
        capabilities: [
          {
            capability: 'face-swap-image',
            feature: 'photo_swap',
            enabled: true,
            unit: 'image',
            rates: [{ when: {}, rate_usd: 0.04 }],
            minimum_usd: 0.04,
            hold: { units: 1.5 },
            preview_usd: 0,
          },
        ],
      },
    },
  ],
};
