import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

/**
 * Returns the path of a file or folder inside an installed package, also where the package's `exports` hide it.
 * @throws Error when the package is not installed
 */
export function installed(packageName: string, inside: string): string {
  for (const root of createRequire(import.meta.url).resolve.paths(packageName) ?? []) {
    const path = join(root, packageName, inside);
    if (existsSync(path)) return path;
  }
  throw new Error(`${packageName} is not installed beside ${dirname(import.meta.filename)}: run npm ci`);
}
