/**
 * Header by which the gateway's file routes say what they found or did, so that an answer of something else at that
 * address (a proxy, a gateway without these routes) is never taken for one about an object.
 */
export const OBJECT_STATE = 'Semblance-Object';

export type ObjectState = 'stored' | 'absent' | 'damaged';
