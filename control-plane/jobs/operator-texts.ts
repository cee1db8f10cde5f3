import type { Lease, Reflector } from '@semblance/common/kube/index';
import { OPERATOR_LEASE, TEXTS_ANNOTATION } from '../sessions/allocator.ts';

/** Longest wait for the first read of the Lease, in ms. */
const SYNC_WITHIN_MS = 5_000;

/**
 * Creates a function that resolves with whether the operators ask for texts that a RenderJob names by digest. Only one
 * that leads and does not say so is of an earlier release, or was not told where the control plane is. While none
 * leads, the next one is taken for the present release.
 */
export function createOperatorTexts(options: {
  readonly leases: Pick<Reflector<Lease>, 'get' | 'hasSynced' | 'waitForSync'>;
  readonly namespace: string;
}): () => Promise<boolean> {
  const { leases, namespace } = options;
  return async () => {
    if (!leases.hasSynced) await leases.waitForSync(AbortSignal.timeout(SYNC_WITHIN_MS));
    const lease = leases.get(OPERATOR_LEASE, namespace);
    if (!lease?.spec?.holderIdentity) return true;
    return lease.metadata.annotations?.[TEXTS_ANNOTATION] === 'true';
  };
}
