import { existsSync } from 'node:fs';
import { findOnPath } from '@semblance/common/process/find-on-path';

/** Maps a program to the Debian package that contains it. */
const PROGRAMS: Record<string, string> = {
  containerd: 'containerd',
  ctr: 'containerd',
  runc: 'runc',
  iptables: 'iptables',
  ip: 'iproute2',
  conntrack: 'conntrack',
  unshare: 'util-linux',
  nsenter: 'util-linux',
};
const PLUGIN_FOLDERS = ['/usr/lib/cni', '/opt/cni/bin'];

/** Includes the folders of daemons, which are not on every user's PATH. */
export const SEARCH_PATH = `${process.env.PATH ?? ''}:/usr/sbin:/sbin`;

/**
 * Returns the folder of the network plugins.
 * @throws Error naming everything that is missing and how to install it
 */
export function checkPrerequisites(): { plugins: string; containerd: string; ctr: string } {
  if (process.platform !== 'linux') throw new Error('a node without Docker needs Linux');
  if (process.getuid?.() !== 0) throw new Error('a node without Docker runs only as root');
  const packages = new Set<string>();
  for (const [program, name] of Object.entries(PROGRAMS))
    if (!findOnPath(program, SEARCH_PATH)) packages.add(name);
  const plugins = PLUGIN_FOLDERS.find((folder) => existsSync(`${folder}/ptp`));
  if (!plugins) packages.add('containernetworking-plugins');
  const containerd = findOnPath('containerd', SEARCH_PATH);
  const ctr = findOnPath('ctr', SEARCH_PATH);
  if (packages.size > 0 || !plugins || !containerd || !ctr)
    throw new Error(
      `a cluster without Docker needs more of this machine: apt-get install ${[...packages].join(' ')}`,
    );
  return { plugins, containerd, ctr };
}
