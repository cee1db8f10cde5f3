/**
 * Builds the pages of the console, which the gateway serves.
 *
 *   node console/build.ts [output folder]
 */
import { join } from 'node:path';
import { build } from 'vite';

const outDir = process.argv[2] ?? join(import.meta.dirname, 'dist');
try {
  await build({
    configFile: join(import.meta.dirname, 'vite.config.ts'),
    logLevel: 'warn',
    build: { outDir },
  });
} catch (error) {
  console.error(error);
  console.error(
    'The console cannot be built. If a package is missing, run `npm ci`, then `npm run generate:console`.\n' +
      'Without its build the gateway serves no console and says so at its start; SEMBLANCE_CONSOLE=off starts it all the same.',
  );
  process.exitCode = 1;
}
