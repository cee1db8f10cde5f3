export { boundClient } from './bound-client.ts';
export * from './client.ts';
export { isKubeError } from './errors.ts';
export { createEventRecorder, type EventRecorder } from './event-recorder.ts';
export type { Handlers } from './handlers.ts';
export { createLeaderElection } from './leader-election.ts';
export { createLeaseKeeper } from './lease.ts';

export { counter, gauge, histogram } from './metrics.ts';
export { isNamespaceGoing } from './namespace.ts';
export { ADDRESSED_POD, addressFault } from './pod-address.ts';
export { createReflector, type Reflector } from './reflector.ts';
export * from './resources.ts';
