import type { Registry } from 'prom-client';
import { gauge } from '../../kube/metrics.ts';
import type { Tls } from './tls.ts';

/** Registers a gauge of the expiry times of the certificate in use and its authority. It has no value without TLS. */
export function observeExpiry(registry: Registry, tls: Tls | undefined): void {
  gauge(registry, {
    name: 'semblance_tls_certificate_not_after_seconds',
    help: 'When the certificate between services ends, and the authority that issued it, as Unix time.',
    labelNames: ['file'] as const,
    collect() {
      if (!tls) return;
      this.set({ file: 'tls.crt' }, tls.current.notAfter.getTime() / 1_000);
      this.set({ file: 'ca.crt' }, tls.current.authorityNotAfter.getTime() / 1_000);
    },
  });
}

/**
 * Returns a check for `/readyz` that fails when the certificate or its authority has expired, because no other
 * service accepts it then.
 */
export function expiryCheck(tls: Tls | undefined): Readonly<Record<string, () => void>> {
  if (!tls) return {};
  return {
    certificate() {
      const { notAfter, authorityNotAfter } = tls.current;
      for (const [what, end] of [
        ['the certificate between services', notAfter],
        ['the authority that issued the certificate', authorityNotAfter],
      ] as const)
        if (Date.now() > end.getTime()) throw new Error(`${what} ended at ${end.toISOString()}`);
    },
  };
}
