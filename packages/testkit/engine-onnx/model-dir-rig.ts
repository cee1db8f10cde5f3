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

  async make(models: readonly GivenModel[]): Promise<string> {
    const directory = await this.directory();
    const entries = await Promise.all(
      models.map(async ({ bytes, beside, npz, ...model }) => {
        const file = model.file ?? `${model.name ?? model.contract}.onnx`;
        if (bytes) await writeFile(join(directory, file), bytes);
        if (npz) await writeFile(join(directory, `${file}.npz`), npz);
        if (beside) await writeFile(join(directory, `${file}.json`), JSON.stringify(beside));
        const sha256 =
          model.sha256 ??
          createHash('sha256')
            .update(bytes ?? '')
            .digest('hex');
        return { name: model.contract, licence: 'made for a test', ...model, file, sha256 };
      }),
    );
    await writeFile(join(directory, 'manifest.json'), JSON.stringify({ version: 1, models: entries }));
    return directory;
  }

  async close(): Promise<void> {
    for (const path of this.#made.splice(0)) await rm(path, { recursive: true, force: true });
  }
}
