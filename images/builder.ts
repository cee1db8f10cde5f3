import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { findOnPath } from '#common/process/find-on-path.ts';
import { cacheFolder } from '../local/toolchain/tools.ts';
import { run, succeeds } from './command.ts';

/** All files of all layers carry this time, so that the same content gives the same layers whenever it is built. */
export const BUILT_AT = 1_735_689_600;

export type BuildRequest = {
  image: string;
  context: string;
  containerfile: string;
  target?: string;
  args?: Record<string, string>;
  /** File that `RUN --mount=type=secret,id=…` sees, by id. */
  secrets?: Record<string, string>;
};

/** What builds, keeps and gives out images. */
export interface Builder {
  readonly name: 'docker' | 'buildah';
  build(request: BuildRequest, onLine?: (line: string) => void): Promise<void>;
  /** Whether the image is here or can be fetched. */
  obtainable(image: string): Promise<boolean>;
  size(image: string): Promise<number>;
  /** Digests of the image's layers, uncompressed. */
  layers(image: string): Promise<string[]>;
  /** Writes images with their names and layers into one archive, as `docker load` and `ctr images import` read it. */
  save(images: readonly string[], folder: string): Promise<string[]>;
}

/** Where builders and bases are kept: outside the work tree, as what the toolchain builds is. */
export function imagesFolder(): string {
  return join(cacheFolder(process.env), 'images');
}

const PULL_MS = 60_000;

/**
 * Docker where its engine answers, else buildah with a store of its own in `folder`. SEMBLANCE_IMAGE_BUILDER names one.
 * @throws Error when there is neither
 */
export async function openBuilder(folder: string, env: NodeJS.ProcessEnv = process.env): Promise<Builder> {
  const wanted = env.SEMBLANCE_IMAGE_BUILDER;
  if (wanted && wanted !== 'docker' && wanted !== 'buildah')
    throw new Error(`SEMBLANCE_IMAGE_BUILDER is ${wanted}; it names docker or buildah`);
  if (wanted !== 'buildah' && (await dockerAnswers(env))) return dockerBuilder();
  if (wanted === 'docker') throw new Error('SEMBLANCE_IMAGE_BUILDER is docker, whose engine does not answer');
  if (findOnPath('buildah', env.PATH)) return buildahBuilder(folder);
  throw new Error('no Docker engine answers, and buildah is not installed (Debian: apt-get install buildah)');
}

export function dockerAnswers(env: NodeJS.ProcessEnv = process.env): Promise<boolean> {
  if (!findOnPath('docker', env.PATH)) return Promise.resolve(false);
  return succeeds('docker', ['version', '--format', '{{.Server.Version}}'], { env, timeoutMs: 10_000 });
}

function requestArgs({ target, args = {}, secrets = {} }: BuildRequest): string[] {
  return [
    ...(target ? ['--target', target] : []),
    ...Object.entries(args).map(([name, value]) => `--build-arg=${name}=${value}`),
    ...Object.entries(secrets).map(([id, file]) => `--secret=id=${id},src=${file}`),
  ];
}

function dockerBuilder(): Builder {
  const env = { ...process.env, DOCKER_BUILDKIT: '1', SOURCE_DATE_EPOCH: String(BUILT_AT) };
  const docker = (args: string[], onLine?: (line: string) => void) =>
    run('docker', args, { env, ...(onLine ? { onLine } : {}) });
  return {
    name: 'docker',
    async build(request, onLine) {
      const { image, context, containerfile } = request;
      await docker(
        ['build', '--file', containerfile, '--tag', image, ...requestArgs(request), context],
        onLine,
      );
    },
    obtainable: (image) => succeeds('docker', ['pull', image], { env, timeoutMs: PULL_MS }),
    async size(image) {
      return Number(await docker(['image', 'inspect', '--format', '{{.Size}}', image]));
    },
    async layers(image) {
      return JSON.parse(await docker(['image', 'inspect', '--format', '{{json .RootFS.Layers}}', image]));
    },
    async save(images, folder) {
      mkdirSync(folder, { recursive: true });
      const archive = join(folder, 'images.tar');
      await docker(['save', '--output', archive, ...images]);
      return [archive];
    },
  };
}

function buildahBuilder(folder: string): Builder {
  const runRoot = join(folder, 'run');
  const place = ['--root', join(folder, 'storage'), '--runroot', runRoot];
  mkdirSync(runRoot, { recursive: true });
  const scratch = join(folder, 'tmp');
  mkdirSync(scratch, { recursive: true });
  const env = { ...process.env, TMPDIR: scratch };
  const buildah = (args: string[], onLine?: (line: string) => void) =>
    run('buildah', [...place, ...args], { env, ...(onLine ? { onLine } : {}) });
  const inspect = async (image: string) =>
    JSON.parse(await buildah(['inspect', '--type', 'image', image])) as {
      OCIv1: { rootfs: { diff_ids: string[] } };
    };
  return {
    name: 'buildah',
    async build(request, onLine) {
      const { image, context, containerfile } = request;
      await buildah(
        // Commands run in a plain chroot, which works also inside containers and sandboxes.
        ['bud', '--isolation', 'chroot', '--layers', '--timestamp', String(BUILT_AT)].concat(
          ['--file', containerfile, '--tag', image],
          requestArgs(request),
          [context],
        ),
        onLine,
      );
    },
    async obtainable(image) {
      return succeeds('buildah', [...place, 'pull', '--policy', 'missing', image], {
        env,
        timeoutMs: PULL_MS,
      });
    },
    async size(image) {
      const images = JSON.parse(await buildah(['images', '--json', image])) as { size: string }[];
      return bytesOf(images[0]?.size ?? '');
    },
    async layers(image) {
      return (await inspect(image)).OCIv1.rootfs.diff_ids;
    },
    async save(images, target) {
      mkdirSync(target, { recursive: true });
      const archives: string[] = [];
      for (const image of images) {
        const archive = join(target, `${image.replace(/[^a-z0-9.-]+/gi, '_')}.tar`);
        await run('rm', ['-f', archive]);
        await buildah(['push', '--quiet', image, `docker-archive:${archive}:${image}`]);
        archives.push(archive);
      }
      return archives;
    },
  };
}

/** `281 MB` as buildah says it. */
function bytesOf(text: string): number {
  const [, number, unit] = /^([\d.]+) ?([KMGT]?)i?B$/.exec(text.trim()) ?? [];
  return Math.round(Number(number) * 1000 ** ['', 'K', 'M', 'G', 'T'].indexOf(unit ?? ''));
}
