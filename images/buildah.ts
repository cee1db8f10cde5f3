import { readFileSync } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { findOnPath } from '@semblance/common/process/find-on-path';
import { type RunOptions, run, succeeds } from '@semblance/common/process/run';
import {
  BUILT_AT,
  type BuilderContext,
  PULL_MS,
  requestArgs,
  type UnlockedBuilder,
} from './builder-contract.ts';

/**
 * Returns the arguments before a root command that give it its own mount and pid namespaces. They end with the
 * command in any case, so nothing stays mounted or running. Empty if the kernel refuses, or for other users, for
 * whom buildah makes its own namespaces.
 */
async function enclosed(env: NodeJS.ProcessEnv): Promise<string[]> {
  const unshare = findOnPath('unshare', env.PATH);
  if (process.getuid?.() !== 0 || !unshare) return [];
  const enclosure = [
    ...[unshare, '--mount', '--propagation=private', '--pid', '--fork', '--kill-child', '--mount-proc'],
  ];
  // If this process is killed, nobody else would end the command.
  const setpriv = findOnPath('setpriv', env.PATH);
  const tied = setpriv ? [setpriv, '--pdeathsig', 'KILL', ...enclosure] : enclosure;
  for (const [command, ...args] of [tied, enclosure])
    if (command && (await succeeds(command, [...args, 'true'], { env }))) return [command, ...args];
  return [];
}

/** @param context.folder folder of its store; locked by the caller */
export async function buildahBuilder(context: BuilderContext): Promise<UnlockedBuilder> {
  const { folder, signal, cold } = context;
  const [scratch, storage] = [join(folder, 'tmp'), join(folder, 'storage')];
  const runRoot = join(folder, 'run');
  const place = ['--root', storage, '--runroot', runRoot];
  const env = { ...context.env, TMPDIR: scratch };
  const [command = 'buildah', ...before] = [...(await enclosed(env)), 'buildah', ...place];
  const buildah = (args: string[], options: RunOptions = { signal }) =>
    run(command, [...before, ...args], { env, killSignal: 'SIGKILL', ...options });
  // Removes containers that this or a former, possibly killed, build left. Nobody else uses this store.
  const tidy = async () => {
    await rm(scratch, { recursive: true, force: true });
    await mkdir(scratch, { recursive: true });
    await buildah(['rm', '--all'], {});
    for (const path of mountedBelow(storage)) await succeeds('umount', [path]);
  };
  await mkdir(runRoot, { recursive: true });
  await tidy();
  const inspect = async (image: string) =>
    JSON.parse(await buildah(['inspect', '--type', 'image', image])) as {
      OCIv1: { rootfs: { diff_ids: string[] } };
      FromImageID?: string;
      FromImageDigest?: string;
    };
  return {
    name: 'buildah',
    async build(request, onLine) {
      const { image, context, containerfile } = request;
      await buildah(
        [
          // Commands run in a plain chroot, which also works inside containers and sandboxes.
          ...['bud', '--isolation', 'chroot', '--layers', '--timestamp', String(BUILT_AT)],
          ...(cold ? ['--no-cache'] : []),
          ...['--file', containerfile, '--tag', image, ...requestArgs(request), context],
        ],
        { signal, ...(onLine ? { onLine } : {}) },
      );
    },
    async obtainable(image) {
      return buildah(['pull', '--policy', 'missing', image], { signal, timeoutMs: PULL_MS }).then(
        () => true,
        () => false,
      );
    },
    async size(image) {
      const images = JSON.parse(await buildah(['images', '--json', image])) as { size: string }[];
      return bytesOf(images[0]?.size ?? '');
    },
    async id(image) {
      return `sha256:${(await inspect(image)).FromImageID}`;
    },
    async baseDigest(image) {
      // An image that was built here has a digest that no registry knows.
      return image.startsWith('localhost/') ? undefined : (await inspect(image)).FromImageDigest;
    },
    async readFile(image, path) {
      const container = (await buildah(['from', '--pull-never', image])).trim();
      return buildah(['run', '--isolation', 'chroot', container, '--', '/bin/cat', path]).finally(() =>
        buildah(['rm', container], {}),
      );
    },
    async layers(image) {
      return (await inspect(image)).OCIv1.rootfs.diff_ids;
    },
    async save(images, target) {
      await mkdir(target, { recursive: true });
      const archives: string[] = [];
      for (const image of images) {
        const archive = join(target, `${image.replace(/[^a-z0-9.-]+/gi, '_')}.tar`);
        await rm(archive, { force: true });
        await buildah(['push', '--quiet', image, `docker-archive:${archive}:${image}`]);
        archives.push(archive);
      }
      return archives;
    },
    close: tidy,
  };
}

/** Returns mounts below the folder, innermost first. Without its own namespaces buildah leaves its store mounted. */
function mountedBelow(folder: string): string[] {
  return readFileSync('/proc/self/mounts', 'utf8')
    .split('\n')
    .map((line) => (line.split(' ')[1] ?? '').replace(/\\040/g, ' '))
    .filter((path) => path.startsWith(`${folder}/`))
    .sort((a, b) => b.length - a.length);
}

/** Parses a size as buildah prints it, such as `281 MB`, into bytes. */
function bytesOf(text: string): number {
  const [, number, unit] = /^([\d.]+) ?([KMGT]?)i?B$/.exec(text.trim()) ?? [];
  return Math.round(Number(number) * 1000 ** ['', 'K', 'M', 'G', 'T'].indexOf(unit ?? ''));
}
