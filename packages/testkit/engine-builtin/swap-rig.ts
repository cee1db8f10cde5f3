import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Engine, RenderResult } from '@semblance/engine-api/engine';
import { createBuiltinEngine } from '@semblance/engine-builtin';
import { afterAll, beforeAll } from 'vitest';

const MEDIA = join(import.meta.dirname, '..', '..', '..', 'media');
export const ASTRONAUT = join(MEDIA, 'astronaut.png');
export const ADMIRAL = join(MEDIA, 'grace_hopper.jpg');
export const PROFESSOR = join(MEDIA, 'einstein.jpg');

export interface SwapRig {
  readonly engine: Engine;
  /** Returns a new, empty folder. */
  outputDir(): Promise<string>;
  swap(image: string, face: string, signal?: AbortSignal): Promise<RenderResult>;
  /** Writes a new file with these bytes and returns its path. */
  file(name: string, bytes: Buffer | Promise<Buffer>): Promise<string>;
}

/** Creates a warm engine and a folder for the tests of a file; both end with the tests. */
export function useSwapRig(): SwapRig {
  let directory: string;
  let engine: Engine;
  let count = 0;

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'semblance-photo-swap-'));
    engine = createBuiltinEngine({ threads: 2 });
    await engine.warmUp(AbortSignal.timeout(200_000));
  });

  afterAll(async () => {
    await engine.close();
    await rm(directory, { recursive: true, force: true });
  });

  const rig: SwapRig = {
    get engine() {
      return engine;
    },
    async outputDir() {
      const path = join(directory, `out-${count++}`);
      await mkdir(path);
      return path;
    },
    async swap(image, face, signal = new AbortController().signal) {
      return engine.render({
        capability: 'face-swap-image',
        inputs: { image, face },
        parameters: {},
        outputDir: await rig.outputDir(),
        signal,
        onProgress: () => undefined,
      });
    },
    async file(name, bytes) {
      const path = join(directory, `${count++}-${name}`);
      await writeFile(path, await bytes);
      return path;
    },
  };
  return rig;
}
