/**
 * `npm run images:load [-- --containerd SOCKET | --kind NAME]`: builds the images and loads them into a cluster: a node's containerd, by its socket (SEMBLANCE_CONTAINERD_SOCKET), or a kind cluster (SEMBLANCE_KIND_CLUSTER). Default: the only kind cluster that exists.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { imageName, runCommand } from './arguments.ts';
import { buildImages } from './build.ts';
import { imagesFolder } from './builder.ts';
import { findDestination, loadArchives } from './destination.ts';
import { withAdvice } from './disk-full.ts';

const USAGE = `usage: npm run images:load -- [--containerd SOCKET | --kind NAME] [OPTION…]

  --containerd SOCKET of the containerd of this node; default: SEMBLANCE_CONTAINERD_SOCKET
  --kind NAME        a cluster of kind; default: SEMBLANCE_KIND_CLUSTER, or the only one`;

if (import.meta.main) {
  await runCommand(USAGE, ['containerd', 'kind'], async ({ extra, ...options }) => {
    const to = await findDestination(extra);
    const say = (line: string) => console.log(line);
    await using builder = await buildImages({ ...options, say });
    await withAdvice(imagesFolder(), async () => {
      const folder = await mkdtemp(join(imagesFolder(), 'archives-'));
      try {
        // Images are loaded one after the other, because an archive is as large as its image.
        for (const target of options.targets) {
          const archives = await builder.save([imageName(target, options.tag)], folder);
          await loadArchives(archives, to, options.signal);
          for (const archive of archives) await rm(archive);
          say(`loaded ${imageName(target, options.tag)}`);
        }
      } finally {
        await rm(folder, { recursive: true, force: true });
      }
    });
  });
}
