import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { findOnPath } from '@semblance/common/process/find-on-path';
import { succeeds } from '@semblance/common/process/run';
import { lock } from '@semblance/local/process/lock';
import { cacheFolder } from '@semblance/local/toolchain/tools';
import { buildahBuilder } from './buildah.ts';
import type { Builder } from './builder-contract.ts';
import { dockerBuilder } from './docker.ts';

export type { Builder } from './builder-contract.ts';

export type BuilderOptions = {
  env?: NodeJS.ProcessEnv;
  /** Cancels the builder's work. */
  signal?: AbortSignal | undefined;
  /** Whether layers of former builds are ignored. Default false. */
  cold?: boolean;
  /** Called when another process builds and this one waits. */
  say?: (line: string) => void;
};

/**
 * Returns the folder of builders and bases. It is outside the work tree, like the tools that the toolchain builds.
 */
export function imagesFolder(env: NodeJS.ProcessEnv = process.env): string {
  return join(cacheFolder(env), 'images');
}

/**
 * Opens Docker if its engine answers, otherwise buildah with its own store in `folder`. SEMBLANCE_IMAGE_BUILDER
 * selects one.
 * @throws Error when neither is available
 */
export async function openBuilder(folder: string, options: BuilderOptions = {}): Promise<Builder> {
  const { env = process.env, signal, cold = false, say } = options;
  const kind = await kindOfBuilder(env);
  await mkdir(folder, { recursive: true });
  const held = await lock(join(folder, 'lock'), {
    ...(signal ? { signal } : {}),
    onWait: (holder) =>
      say?.(`process ${holder ?? 'of unknown number'} builds images in ${folder}: waiting for its end`),
  });
  try {
    const context = { env, folder, signal, cold };
    const builder = kind === 'docker' ? dockerBuilder(context) : await buildahBuilder(context);
    return {
      ...builder,
      async [Symbol.asyncDispose]() {
        await builder.close().finally(() => held.release());
      },
    };
  } catch (error) {
    held.release();
    throw error;
  }
}

async function kindOfBuilder(env: NodeJS.ProcessEnv): Promise<Builder['name']> {
  const wanted = env.SEMBLANCE_IMAGE_BUILDER;
  if (wanted && wanted !== 'docker' && wanted !== 'buildah')
    throw new Error(`SEMBLANCE_IMAGE_BUILDER is ${wanted}; it names docker or buildah`);
  if (wanted !== 'buildah' && (await dockerAnswers(env))) return 'docker';
  if (wanted === 'docker') throw new Error('SEMBLANCE_IMAGE_BUILDER is docker, whose engine does not answer');
  if (findOnPath('buildah', env.PATH)) return 'buildah';
  throw new Error('no Docker engine answers, and buildah is not installed (Debian: apt-get install buildah)');
}

export function dockerAnswers(env: NodeJS.ProcessEnv = process.env): Promise<boolean> {
  if (!findOnPath('docker', env.PATH)) return Promise.resolve(false);
  return succeeds('docker', ['version', '--format', '{{.Server.Version}}'], { env, timeoutMs: 10_000 });
}
