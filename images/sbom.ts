/**
 * `node images/sbom.ts NAME VERSION FILE`: writes what the image that it runs in is made of, as CycloneDX 1.6 in JSON:
 * Node.js, the npm packages below the working folder, and the packages of Debian. Equal content gives an equal file.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

export interface Component {
  readonly type: 'library' | 'application' | 'operating-system';
  readonly name: string;
  readonly group?: string;
  readonly version: string;
  /** Package URL; also the reference of the component. */
  readonly purl: string;
  readonly license?: string;
}

/** Returns the npm packages whose folders are in `node_modules` folders at or below `folder`. */
export function npmPackages(folder: string): Component[] {
  const found: Component[] = [];
  const visitPackage = (path: string) => {
    const manifest = join(path, 'package.json');
    if (existsSync(manifest)) {
      const { name, version, license } = JSON.parse(readFileSync(manifest, 'utf8')) as Record<
        string,
        unknown
      >;
      if (typeof name === 'string' && typeof version === 'string')
        found.push(npmComponent(name, version, typeof license === 'string' ? license : undefined));
    }
    visitModules(join(path, 'node_modules'));
  };
  const visitModules = (path: string) => {
    if (!existsSync(path)) return;
    for (const entry of readdirSync(path, { withFileTypes: true })) {
      // Links lead to the workspaces, which are Semblance itself.
      if (!entry.isDirectory()) continue;
      if (!entry.name.startsWith('@')) visitPackage(join(path, entry.name));
      else
        for (const scoped of readdirSync(join(path, entry.name), { withFileTypes: true }))
          if (scoped.isDirectory()) visitPackage(join(path, entry.name, scoped.name));
    }
  };
  visitModules(join(folder, 'node_modules'));
  for (const entry of readdirSync(folder, { withFileTypes: true }))
    if (entry.isDirectory() && entry.name !== 'node_modules')
      found.push(...npmPackages(join(folder, entry.name)));
  return found;
}

function npmComponent(fullName: string, version: string, license: string | undefined): Component {
  const [, group, name = fullName] = /^(@[^/]+)\/(.+)$/.exec(fullName) ?? [];
  const path = group ? `${encodeURIComponent(group)}/${name}` : name;
  return {
    type: 'library',
    name,
    ...(group ? { group } : {}),
    version,
    purl: `pkg:npm/${path}@${encodeURIComponent(version)}`,
    ...(license ? { license } : {}),
  };
}

/** Returns the packages in a dpkg database, given as the text of its `status`. */
export function debianPackages(status: string, distribution: string): Component[] {
  return status.split(/\n\n+/).flatMap((paragraph) => {
    const field = (name: string) => new RegExp(`^${name}: (.*)$`, 'm').exec(paragraph)?.[1];
    const [name, version, architecture] = [field('Package'), field('Version'), field('Architecture')];
    if (!name || !version || !field('Status')?.endsWith(' installed')) return [];
    const purl = `pkg:deb/${distribution}/${name}@${encodeURIComponent(version)}?arch=${architecture}`;
    return [{ type: 'library' as const, name, version, purl }];
  });
}

/** Returns the document of an image, in which each component stands once. */
export function cycloneDx(
  image: { readonly name: string; readonly version: string },
  all: readonly Component[],
) {
  const once = new Map(all.map((component) => [component.purl, component]));
  const components = [...once.values()].sort((a, b) => (a.purl < b.purl ? -1 : 1));
  return {
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    version: 1,
    metadata: {
      component: { type: 'container', 'bom-ref': image.name, ...image },
    },
    components: components.map(({ license, ...component }) => ({
      'bom-ref': component.purl,
      ...component,
      // A name, since not every package writes an SPDX expression.
      ...(license ? { licenses: [{ license: { name: license } }] } : {}),
    })),
  };
}

if (import.meta.main) {
  const [name = '', version = '', file = ''] = process.argv.slice(2);
  const status = '/var/lib/dpkg/status';
  const release = readFileSync('/etc/os-release', 'utf8');
  const distribution = /^ID="?([a-z]+)/m.exec(release)?.[1] ?? 'debian';
  const node = process.version.slice(1);
  const document = cycloneDx({ name, version }, [
    { type: 'application', name: 'node', version: node, purl: `pkg:generic/node@${node}` },
    ...npmPackages(process.cwd()),
    ...(existsSync(status) ? debianPackages(readFileSync(status, 'utf8'), distribution) : []),
  ]);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, `${JSON.stringify(document, undefined, 1)}\n`);
}
