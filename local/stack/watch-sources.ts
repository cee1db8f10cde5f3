import { readFileSync, watch } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
/** Time to collect saves, because editors write a file in several steps and people save several files. */
const SETTLE_MS = 200;
const FOLDERS: readonly string[] = [
  'common',
  'console',
  'control-plane',
  'crds',
  'gateway',
  'gpu-agent',
  'operator',
  'packages',
  'proto',
];

/** Returns the folders of the workspaces that a service depends on, by their package.json files, its own included. */
export function foldersOf(service: string): string[] {
  const found = new Set<string>();
  const visit = (folder: string) => {
    if (found.has(folder)) return;
    found.add(folder);
    const { dependencies = {} } = JSON.parse(readFileSync(join(ROOT, folder, 'package.json'), 'utf8'));
    for (const name of Object.keys(dependencies).filter((one) => one.startsWith('@semblance/'))) {
      const short = name.slice('@semblance/'.length);
      visit(FOLDERS.includes(short) ? short : `packages/${short}`);
    }
  };
  visit(service);
  return [...found];
}

/**
 * Reports the services that depend on a saved source file.
 * @returns a function that ends the watch
 */
export function watchSources(
  services: readonly string[],
  onSave: (service: string, file: string) => void,
): () => void {
  const folders = new Map(services.map((service) => [service, foldersOf(service)]));
  const saved = new Map<string, string>();
  let timer: NodeJS.Timeout | undefined;
  const tell = () => {
    for (const [service, file] of saved) onSave(service, file);
    saved.clear();
  };
  const watchers = FOLDERS.map((folder) =>
    watch(join(ROOT, folder), { recursive: true }, (_event, name) => {
      if (!name || !/(?<!\.test)\.(ts|js|json|sql|html|css)$/.test(name) || name.includes('node_modules'))
        return;
      const file = `${folder}/${name}`;
      for (const [service, own] of folders)
        if (own.some((one) => file.startsWith(`${one}/`))) saved.set(service, file);
      clearTimeout(timer);
      timer = setTimeout(tell, SETTLE_MS);
    }),
  );
  return () => {
    clearTimeout(timer);
    for (const watcher of watchers) watcher.close();
  };
}
