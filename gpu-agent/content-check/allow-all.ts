import { ALLOWED, type ContentCheck } from './check.ts';

/** Allows everything. It is used when no check is configured, so that the status can say so. */
export const allowAll: ContentCheck = {
  name: 'allow-all',
  about: 'nothing is looked at',
  check: async () => ALLOWED,
  close: async () => {},
};
