import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { createAuthority, type TlsFiles } from '@semblance/common/grpc/tls/authority';
import { COMPONENTS, type Component, nameOf } from '@semblance/common/grpc/tls/components';
import { writeAtomically } from '../process/write-atomically.ts';

/** Writes the files into a folder, each atomically. */
export async function writeTlsFiles(dir: string, { certificate, key, authority }: TlsFiles): Promise<void> {
  await mkdir(dir, { recursive: true, mode: 0o700 });
  await writeAtomically(join(dir, 'tls.key'), key);
  await writeAtomically(join(dir, 'ca.crt'), authority);
  await writeAtomically(join(dir, 'tls.crt'), certificate);
}

/**
 * Creates a folder in `dir` with a certificate for each service, all from one authority made for this start.
 * @returns the folder of each service
 */
export async function serviceCertificates(dir: string): Promise<Record<Component, string>> {
  const authority = await createAuthority();
  const folders = {} as Record<Component, string>;
  for (const component of COMPONENTS) {
    folders[component] = join(dir, component);
    await writeTlsFiles(folders[component], await authority.issue({ names: [nameOf(component)] }));
  }
  return folders;
}
