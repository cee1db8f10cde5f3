/**
 * Header by which the gateway's file routes report what they found or did. So an answer from something else at that
 * address (a proxy, a gateway without these routes) is never taken for one about an object.
 */
export const OBJECT_STATE = 'Semblance-Object';

export type ObjectState = 'stored' | 'absent' | 'damaged';
