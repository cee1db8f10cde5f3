import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { pythonWith } from '../stack/python-venv.ts';

const run = promisify(execFile);
const PROGRAM = join(import.meta.dirname, 'read-manifest.py');

export interface ReadManifest {
  readonly active_manifest: string;
  /** `Trusted`: all hashes and the signature are valid, and a trusted authority issued the certificate. */
  readonly validation_state: 'Trusted' | 'Valid' | 'Invalid';
  readonly validation_status?: readonly { readonly code: string }[];
  readonly manifests: Readonly<
    Record<
      string,
      {
        readonly claim_generator_info: readonly { readonly name: string; readonly version: string }[];
        readonly instance_id: string;
        readonly ingredients?: readonly { title: string; relationship: string; instance_id: string }[];
        readonly assertions: readonly { label: string; data: { actions: Record<string, unknown>[] } }[];
        readonly signature_info: Readonly<Record<string, string>>;
      }
    >
  >;
}

export type Read = { readonly read: ReadManifest } | { readonly error: string };

/** Returns a Python with the reader, which the first call installs. */
export const readerPython = () => pythonWith(['c2pa-python==0.38.1']);

/** Reads each file with the C2PA project's reader. */
export async function readManifests(authorityFile: string, files: readonly string[]): Promise<Read[]> {
  const { stdout } = await run(await readerPython(), [PROGRAM, authorityFile, ...files], {
    maxBuffer: 64 << 20,
  });
  return stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Read);
}
