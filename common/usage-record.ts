import { CAPABILITIES, isCapability } from '@semblance/engine-api/capabilities';
import type { UsageEntry, UsageSummary } from '@semblance/proto/semblance/control/v1/usage';
import { microsToUsd } from './money.ts';

/**
 * Returns a usage entry as the API and the admin command answer it, with its fields in the order of serialisation.
 */
export function usageEntry(entry: UsageEntry) {
  const { capability } = entry;
  return {
    id: entry.id,
    endpoint: capability,
    feature: isCapability(capability) ? CAPABILITIES[capability].feature : capability,
    status: entry.status,
    charged_usd: microsToUsd(entry.chargedMicros),
    reason: entry.reason ?? null,
    created_at: entry.createdAt,
  };
}

/** Returns the usage summary as both answer it. */
export function usageSummary({ succeeded, failed, inFlight, spentMicros, features }: UsageSummary) {
  return {
    total_calls: Number(succeeded + failed + inFlight),
    succeeded: Number(succeeded),
    failed: Number(failed),
    in_flight: Number(inFlight),
    total_spent_usd: microsToUsd(spentMicros),
    per_feature: features.map(({ feature, calls, spentMicros: spent }) => ({
      feature,
      calls: Number(calls),
      spend_usd: microsToUsd(spent),
    })),
  };
}
