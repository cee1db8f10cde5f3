/** The services of an installation that call each other, as their certificates name them. */
export const COMPONENTS = ['gateway', 'control-plane', 'operator', 'agent'] as const;
export type Component = (typeof COMPONENTS)[number];

/**
 * Subject alternative name in the certificate of every replica of a component. Pods are reached by addresses that no
 * certificate could foresee, so this name is checked instead.
 */
export function nameOf(component: Component): string {
  return `${component}.semblance.internal`;
}

/**
 * States who may call the gRPC server of a component. The admin command runs beside the control plane, with its
 * certificate.
 */
export const CALLERS: Readonly<Record<Component, readonly Component[]>> = {
  gateway: [],
  'control-plane': ['gateway', 'operator', 'control-plane'],
  operator: ['control-plane'],
  agent: ['operator', 'gateway', 'control-plane'],
};
