/**
 * Copies crds/*.yaml into the chart, which cannot read files outside its folder. Run by `npm run generate`; an argument
 * names another output folder.
 */
import { copyFile, mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';

const here = import.meta.dirname;
const out = process.argv[2] ?? join(here, '..', 'charts', 'semblance', 'files', 'crds');

await rm(out, { recursive: true, force: true });
await mkdir(out, { recursive: true });
for (const file of (await readdir(here)).filter((name) => name.endsWith('.yaml')))
  await copyFile(join(here, file), join(out, file));
