import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CAPABILITIES, type Capability } from '@semblance/engine-api/capabilities';
import type { RenderErrorCode } from '@semblance/engine-api/engine';

/** Files by role: `{ image: '/…/a.png', face: '/…/b.png' }`. */
export type Inputs = Readonly<Record<string, string>>;

/** Work that the engine must refuse. */
export interface BadSample {
  readonly name: string;
  readonly inputs: Inputs;
  readonly code: RenderErrorCode;
}

/** Returns, for each role, a file that is not media and an empty file. */
export async function unreadable(capability: Capability, good: Inputs, dir: string): Promise<BadSample[]> {
  const files = [
    ['a text', 'This is neither a picture nor a sound.\n'.repeat(40)],
    ['an empty file', ''],
    ['the beginning of a picture', Buffer.from('\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0', 'latin1')],
  ] as const;
  const samples: BadSample[] = [];
  for (const [index, [what, content]] of files.entries()) {
    const path = join(dir, `unreadable-${index}`);
    await writeFile(path, content);
    for (const role of Object.keys(CAPABILITIES[capability].inputs)) {
      const inputs = { ...good, [role]: path };
      samples.push({ name: `${what} as ${role}`, inputs, code: 'unsupported_format' });
    }
  }
  return samples;
}
