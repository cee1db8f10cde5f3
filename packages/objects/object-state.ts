/**
 * Header by which the gateway's file routes report what they found or did. Other servers at that address (a proxy,
 * a gateway without these routes) do not set it, so their answers are never taken for one about an object.
 */
export const OBJECT_STATE = 'Semblance-Object';

export type ObjectState = 'stored' | 'absent' | 'damaged';
