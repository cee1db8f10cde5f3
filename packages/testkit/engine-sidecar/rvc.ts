import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pythonEnv } from './python-env.ts';

/** Writes settings of the sidecar `rvc` for a directory of models, and returns the environment variable for them. */
export async function rvcSettings(
  folder: string,
  models: string,
  change: Record<string, unknown> = {},
): Promise<{ readonly SEMBLANCE_RVC_SETTINGS: string }> {
  await mkdir(folder, { recursive: true });
  const path = join(folder, 'settings.yaml');
  await writeFile(path, JSON.stringify({ models, threads: 1, ...change }));
  return { SEMBLANCE_RVC_SETTINGS: path };
}

/** Returns the command that starts the sidecar with these settings. */
export const rvcCommand = async (settings: { readonly SEMBLANCE_RVC_SETTINGS: string }) => [
  'env',
  `SEMBLANCE_RVC_SETTINGS=${settings.SEMBLANCE_RVC_SETTINGS}`,
  await pythonEnv(),
  ...['-m', 'semblance_sidecars.rvc'],
];
