import { execFile } from 'node:child_process';
import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { pythonWith } from '@semblance/testkit/engine-sidecar/python-env';

/** The Python client, built and installed into a folder with its tests. */
export interface InstalledClient {
  readonly dir: string;
  readonly python: string;
  /** Environment in which Python and mypy find the package. */
  readonly env: NodeJS.ProcessEnv;
  close(): Promise<void>;
}

/** @param document the OpenAPI document of which it is generated */
export async function installClient(document: string): Promise<InstalledClient> {
  const python = await pythonWith(join(import.meta.dirname, 'requirements.txt'));
  const dir = await mkdtemp(join(tmpdir(), 'semblance-python-client-'));
  const [source, site] = [join(dir, 'source'), join(dir, 'site')];
  // A build in place would leave files in the repository.
  await cp(import.meta.dirname, source, { recursive: true });
  await cp(join(import.meta.dirname, 'tests'), dir, { recursive: true });
  await writeFile(join(source, 'openapi.json'), document);
  await promisify(execFile)(python, [
    ...['-m', 'pip', 'install', '--quiet', '--no-deps', '--no-build-isolation', '--target', site, source],
  ]);
  return {
    dir,
    python,
    env: {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      PYTHONPATH: site,
      MYPYPATH: site,
      PYTHONDONTWRITEBYTECODE: '1',
    },
    close: () => rm(dir, { recursive: true, force: true }),
  };
}
