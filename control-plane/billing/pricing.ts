import { CAPABILITIES, CAPABILITY_NAMES, isCapability } from '@semblance/engine-api/capabilities';
import { isPreviewed } from '@semblance/engine-api/previewed';
import type { GetPricingResponse } from '@semblance/proto/semblance/control/v1/control';
import type { Sql } from '../storage/sql.ts';

interface RateRow {
  readonly capability: string;
  readonly enabled: boolean;
  readonly version: bigint;
  readonly effective_at: Date;
  readonly unit: string;
  readonly minimum_micros: bigint;
  readonly hold_milli_units: bigint;
  readonly preview_micros: bigint;
  readonly rates: readonly { readonly when: Record<string, string>; readonly rate_micros: number }[];
}

/**
 * Returns the rate card of an account (its own rates first), or the public one. Its version is that of its newest
 * rate. As in quotes, the newest rates count whatever the clock says, because they were set with immediate effect
 * and the clock may have been set back since.
 */
export async function readPricing(sql: Sql, accountId?: string): Promise<GetPricingResponse> {
  const rows = await sql<RateRow[]>`
    select c.name as capability, c.switched_on and c.has_engine as enabled,
           r.version, r.effective_at, r.unit, r.minimum_micros, r.hold_milli_units, r.preview_micros, r.rates
    from capabilities c
    cross join lateral rates_in_force(c.name, ${accountId ?? null}) r`;
  const newest = rows.reduce((a, b) => (b.version > a.version ? b : a));
  const byName = new Map(rows.map((row) => [row.capability, row]));
  return {
    currency: 'USD',
    version: newest.version,
    effectiveAt: newest.effective_at.toISOString(),
    capabilities: CAPABILITY_NAMES.flatMap((name) => {
      const row = byName.get(name);
      if (!row || !isCapability(row.capability)) return [];
      return [
        {
          capability: name,
          feature: CAPABILITIES[name].feature,
          enabled: row.enabled,
          unit: row.unit,
          rates: row.rates.map((rate) => ({ when: rate.when, rateMicros: BigInt(rate.rate_micros) })),
          minimumMicros: row.minimum_micros,
          hold: { units: Number(row.hold_milli_units) / 1000 },
          previewMicros: isPreviewed(name) ? row.preview_micros : undefined,
        },
      ];
    }),
  };
}
