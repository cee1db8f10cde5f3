import type { SetRatesRequest } from '@semblance/proto/semblance/admin/v1/admin';

/** Returns a request that sets the one rate and the minimum of a capability, whatever the size of the output. */
export function flatRate({
  capability,
  accountId,
  rateMicros,
  minimumMicros,
}: {
  readonly capability: string;
  readonly accountId?: string | undefined;
  readonly rateMicros: bigint;
  readonly minimumMicros: bigint;
}): SetRatesRequest {
  return { capability, accountId, rates: [{ when: {}, rateMicros }], whole: true, minimumMicros };
}
