/**
 * `npm run images:load [-- --tag TAG --containerd SOCKET | --kind NAME --only NAME,… --base …]`: builds the images and
 * gives them to the cluster at hand: the containerd of a node by its socket (SEMBLANCE_CONTAINERD_SOCKET), or a cluster
 * of kind (SEMBLANCE_KIND_CLUSTER). With neither: the only cluster of kind that there is.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { describeError } from '#common/errors.ts';
import { findOnPath } from '#common/process/find-on-path.ts';
import { buildImages, defaultTag, imageName, parseTargets } from './build.ts';
import { imagesFolder } from './builder.ts';
import { run } from './command.ts';

/** Gives archives to a node: a containerd by its socket, or all nodes of a kind cluster. */
export type Destination = { socket: string } | { kind: string };

export async function loadArchives(archives: readonly string[], to: Destination): Promise<void> {
  for (const archive of archives) {
    if ('socket' in to)
      await run('ctr', ['--address', to.socket, '--namespace', 'k8s.io', 'images', 'import', archive]);
    else await run('kind', ['load', 'image-archive', '--name', to.kind, archive]);
  }
}

async function destination(socket: string | undefined, kind: string | undefined): Promise<Destination> {
  if (socket) return { socket };
  if (kind) return { kind };
  const clusters = findOnPath('kind')
    ? (await run('kind', ['get', 'clusters'])).split('\n').filter(Boolean)
    : [];
  const [only, ...others] = clusters;
  if (only && others.length === 0) return { kind: only };
  throw new Error(
    others.length > 0
      ? `there are several kind clusters: give one of ${clusters.join(', ')} with --kind`
      : 'give the socket of the node’s containerd (--containerd or SEMBLANCE_CONTAINERD_SOCKET), or a kind cluster (--kind)',
  );
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      tag: { type: 'string' },
      base: { type: 'string' },
      only: { type: 'string' },
      containerd: { type: 'string' },
      kind: { type: 'string' },
    },
  });
  const to = await destination(
    values.containerd ?? process.env.SEMBLANCE_CONTAINERD_SOCKET,
    values.kind ?? process.env.SEMBLANCE_KIND_CLUSTER,
  );
  const say = (line: string) => console.log(line);
  const tag = values.tag ?? (await defaultTag());
  const targets = parseTargets(values.only);
  const builder = await buildImages({ tag, base: values.base, targets, say });
  const folder = await mkdtemp(join(imagesFolder(), 'archives-'));
  try {
    const images = targets.map((target) => imageName(target, tag));
    await loadArchives(await builder.save(images, folder), to);
    say(`loaded ${images.join(', ')}`);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

if (import.meta.main) {
  main().catch((error: unknown) => {
    console.error(describeError(error));
    process.exitCode = 1;
  });
}
