import { createRequire } from 'node:module';

const { version } = createRequire(import.meta.url)('../package.json') as { version: string };

/** Version of this release, from package.json at the root. */
export const VERSION = version;
