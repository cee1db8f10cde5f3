import { chmod, copyFile, cp, mkdir, readdir, realpath, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { findOnPath } from '@semblance/common/process/find-on-path';
import { run } from '@semblance/common/process/run';
import { type Builder, imagesFolder } from './builder.ts';

const RELEASE = 'bookworm';
const ROOT = join(import.meta.dirname, '..');

/** dpkg options that leave out files that nobody reads in a container, also from packages installed later. */
const EXCLUDES = [
  'path-exclude=/usr/share/doc/*',
  'path-include=/usr/share/doc/*/copyright',
  ...['man', 'info', 'locale', 'lintian', 'bug'].map((name) => `path-exclude=/usr/share/${name}/*`),
];

export type Bases = { base: string; buildBase: string };

/**
 * Makes the base images from Debian's packages with debootstrap, for machines that cannot fetch a base. It uses the
 * mirror of this machine's apt and checks signatures with its keys. The tree is kept in the cache.
 * @throws Error that says what is missing
 */
export async function debootstrapBases(
  builder: Builder,
  say: (line: string) => void,
  signal?: AbortSignal,
): Promise<Bases> {
  const folder = join(imagesFolder(), `debootstrap-${RELEASE}-${process.arch}`);
  const tree = join(folder, 'base.tar');
  if (!(await exists(tree))) await makeTree(folder, tree, say, signal);
  const bases = {
    base: `localhost/semblance-base:${RELEASE}`,
    buildBase: `localhost/semblance-build-base:${RELEASE}`,
  };
  await writeFile(join(folder, 'Containerfile'), 'FROM scratch\nADD base.tar /\nCMD ["sh"]\n');
  await builder.build({
    image: bases.base,
    context: folder,
    containerfile: join(folder, 'Containerfile'),
  });
  await addNode(folder, bases.base);
  await builder.build({
    image: bases.buildBase,
    context: join(folder, 'node'),
    containerfile: join(folder, 'node', 'Containerfile'),
  });
  return bases;
}

async function makeTree(
  folder: string,
  tree: string,
  say: (line: string) => void,
  signal: AbortSignal | undefined,
): Promise<void> {
  if (process.getuid?.() !== 0)
    throw new Error(
      'a base is made of Debian’s packages only by root: run this as root, or give bases (--base, --build-base)',
    );
  const debootstrap = findOnPath('debootstrap', `${process.env.PATH}:/usr/sbin`);
  if (!debootstrap)
    throw new Error(
      'no base image can be fetched or made: apt-get install debootstrap, or give one (--base)',
    );
  const sources = await debianSources();
  const mirror = sources.find(({ suite }) => suite === RELEASE);
  if (!mirror)
    throw new Error(
      `apt on this machine has no index of Debian ${RELEASE}: run apt-get update, or give a base`,
    );
  const unfinished = join(folder, `.unfinished-${process.pid}`);
  await mkdir(folder, { recursive: true });
  for (const name of await readdir(folder))
    if (name.startsWith('.unfinished-')) await rm(join(folder, name), { recursive: true, force: true });
  const root = join(unfinished, 'root');
  await mkdir(root, { recursive: true });
  try {
    say(`making a base of Debian ${RELEASE} with debootstrap, once`);
    // debootstrap checks signatures with the archive's keys that are installed here (package
    // debian-archive-keyring).
    await run(debootstrap, ['--variant=minbase', RELEASE, root, mirror.uri], { signal });
    await writeFile(
      join(root, 'etc/apt/sources.list'),
      `${sources.map(({ uri, suite, components }) => `deb ${uri} ${suite} ${components.join(' ')}`).join('\n')}\n`,
    );
    await writeFile(join(root, 'etc/dpkg/dpkg.cfg.d/semblance'), `${EXCLUDES.join('\n')}\n`);
    // debootstrap installs the packages as the release was published, so security fixes are installed afterwards.
    const apt = (args: string[]) =>
      run('chroot', [root, 'apt-get', '-qq', '-o', 'APT::Sandbox::User=root', ...args], {
        signal,
        env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive', LC_ALL: 'C' },
      });
    await apt(['update']);
    await apt(['upgrade', '-y', '--no-install-recommends']);
    await run('chroot', [root, 'sh', '-c', SHRINK]);
    await run('tar', [
      ...['--create', '--file', join(unfinished, 'base.tar'), '--directory', root],
      ...['--sort=name', '--numeric-owner', '--one-file-system', '.'],
    ]);
    await rename(join(unfinished, 'base.tar'), tree);
  } finally {
    await rm(unfinished, { recursive: true, force: true });
  }
}

/** Removes what differs from one run to the next and what a container does not need. */
const SHRINK = `
  apt-get clean
  rm -rf /var/lib/apt/lists/* /var/cache/* /var/log/* /var/lib/dpkg/*-old /etc/*- /tmp/* /debootstrap
  rm -f /etc/machine-id /etc/hostname /etc/resolv.conf
  find /usr/share/doc -type f ! -name copyright -delete
  find /usr/share/man /usr/share/info /usr/share/locale /usr/share/lintian /usr/share/bug -mindepth 1 -delete
  find /usr/share/doc -depth -type d -empty -delete
  mkdir -p /var/lib/apt/lists/partial /var/cache/apt/archives/partial /var/log/apt
`;

type Source = { uri: string; suite: string; components: string[] };

/** Returns the entries of Debian's own archive in this machine's apt configuration: the release and its updates. */
async function debianSources(): Promise<Source[]> {
  const format = '$(ORIGIN)|$(REPO_URI)|$(CODENAME)|$(COMPONENT)';
  const listed = await run('apt-get', ['indextargets', '--format', format, 'Created-By: Packages']);
  const sources = new Map<string, Source>();
  for (const line of listed.split('\n')) {
    const [origin, uri = '', suite = '', component = ''] = line.split('|');
    if (origin !== 'Debian' || !suite.startsWith(RELEASE)) continue;
    const key = `${uri} ${suite}`;
    const source = sources.get(key) ?? { uri, suite, components: [] };
    if (!source.components.includes(component)) source.components.push(component);
    sources.set(key, source);
  }
  return [...sources.values()].sort((a, b) => a.suite.localeCompare(b.suite));
}

/** Adds Node.js from this repository's lock file and the npm beside it, as the public image of Node.js has them. */
async function addNode(folder: string, base: string): Promise<void> {
  const context = join(folder, 'node');
  await rm(context, { recursive: true, force: true });
  await mkdir(join(context, 'bin'), { recursive: true });
  await copyFile(join(ROOT, 'node_modules', 'node', 'bin', 'node'), join(context, 'bin', 'node'));
  await chmod(join(context, 'bin', 'node'), 0o755);
  const npm = process.env.npm_execpath ?? findOnPath('npm');
  if (!npm) throw new Error('npm is not on PATH');
  await cp(dirname(dirname(await realpath(npm))), join(context, 'lib', 'node_modules', 'npm'), {
    recursive: true,
    verbatimSymlinks: true,
  });
  // The image needs the certificate authorities of this machine, because its npm may reach the registry only
  // through them.
  const authorities = '/etc/ssl/certs/ca-certificates.crt';
  await mkdir(join(context, 'certs'));
  if (await exists(authorities)) await copyFile(authorities, join(context, 'certs', 'ca-certificates.crt'));
  await writeFile(
    join(context, 'Containerfile'),
    [
      `FROM ${base}`,
      'COPY bin/node /usr/local/bin/node',
      'COPY lib/node_modules/npm /usr/local/lib/node_modules/npm',
      'COPY certs /etc/ssl/certs',
      'ENV NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt',
      'RUN ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm',
      '',
    ].join('\n'),
  );
}

async function exists(path: string): Promise<boolean> {
  const names = await readdir(dirname(path)).catch(() => [] as string[]);
  return names.includes(path.slice(dirname(path).length + 1));
}
