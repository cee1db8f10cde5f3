import { createHash } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Model that a test puts into a model directory; hash and file get defaults. */
export interface GivenModel {
  readonly contract: string;
  readonly bytes?: Uint8Array;
  readonly name?: string;
  readonly file?: string;
  readonly sha256?: string;
  readonly licence?: string;
  readonly options?: Record<string, unknown>;
  /** Features of a voice. */
  readonly index?: { readonly bytes?: Uint8Array; readonly file?: string; readonly sha256?: string };
  /** Content of the JSON file beside it. */
  readonly beside?: unknown;
  /** The .npz file beside it. */
  readonly npz?: Uint8Array;
}

/** Model directories that `close` removes. */
export class ModelDirRig {
  readonly #made: string[] = [];

  async directory(): Promise<string> {
    const path = await mkdtemp(join(tmpdir(), 'semblance-models-'));
    this.#made.push(path);
    return path;
  }

  /** @param order of the manifest; undefined: it names none */
  async make(models: readonly GivenModel[], order?: readonly string[]): Promise<string> {
    const directory = await this.directory();
    const entries = await Promise.all(
      models.map(async ({ bytes, index, beside, npz, ...model }) => {
        const name = model.name ?? model.contract;
        const { file, sha256 } = await put(directory, `${name}.onnx`, { ...model, bytes });
        if (npz) await writeFile(join(directory, `${file}.npz`), npz);
        if (beside) await writeFile(join(directory, `${file}.json`), JSON.stringify(beside));
        return {
          name,
          licence: 'made for a test',
          ...model,
          file,
          sha256,
          ...(index && { index: await put(directory, `${name}.index`, index) }),
        };
      }),
    );
    await writeFile(join(directory, 'manifest.json'), JSON.stringify({ version: 1, models: entries, order }));
    return directory;
  }

  async close(): Promise<void> {
    for (const path of this.#made.splice(0)) await rm(path, { recursive: true, force: true });
  }
}

/** Writes a file of a manifest. @returns what the manifest says of it */
async function put(
  directory: string,
  name: string,
  { bytes, file = name, sha256 }: { readonly bytes?: Uint8Array | undefined; file?: string; sha256?: string },
): Promise<{ file: string; sha256: string }> {
  if (bytes) await writeFile(join(directory, file), bytes);
  const hash = createHash('sha256').update(bytes ?? '');
  return { file, sha256: sha256 ?? hash.digest('hex') };
}
