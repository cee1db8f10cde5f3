/** Services of an installation that call each other, as named in their certificates. */
export const COMPONENTS = ['gateway', 'control-plane', 'operator', 'agent'] as const;
export type Component = (typeof COMPONENTS)[number];

/**
 * Returns the subject alternative name in the certificates of all replicas of a component. Clients check this name
 * because the addresses of Pods cannot be known when a certificate is issued.
 */
export function nameOf(component: Component): string {
  return `${component}.semblance.internal`;
}

/**
 * Components that may call the gRPC server of each component. The admin command runs beside the control plane, with
 * its certificate.
 */
export const CALLERS: Readonly<Record<Component, readonly Component[]>> = {
  gateway: [],
  'control-plane': ['gateway', 'operator', 'control-plane'],
  operator: ['control-plane'],
  agent: ['operator', 'gateway', 'control-plane'],
};
