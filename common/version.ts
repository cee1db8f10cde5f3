import { createRequire } from 'node:module';

const { version } = createRequire(import.meta.url)('../package.json') as { version: string };

/** The version of this release, as package.json at the root states it. */
export const VERSION = version;
