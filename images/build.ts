/**
 * `npm run images:build [-- --tag TAG --base IMAGE|debootstrap --only NAME,…]`: builds the images of Semblance, and the
 * PostgreSQL and NATS for evaluation, and says how large they are.
 */
import { existsSync } from 'node:fs';
import { chmod, copyFile, mkdir, readFile, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { describeError } from '#common/errors.ts';
import { describeDuration, progressPrinter } from '../local/toolchain/progress.ts';
import { resolveTools } from '../local/toolchain/toolchain.ts';
import { type Bases, debootstrapBases } from './base.ts';
import { type Builder, imagesFolder, openBuilder } from './builder.ts';

const ROOT = join(import.meta.dirname, '..');
const CONTAINERFILE = join(import.meta.dirname, 'Containerfile');

export const TARGETS = ['semblance', 'semblance-agent', 'semblance-postgres', 'semblance-nats'] as const;
export type Target = (typeof TARGETS)[number];

export const imageName = (target: Target, tag: string) => `localhost/${target}:${tag}`;

export type BuildImagesOptions = {
  tag: string;
  targets?: readonly Target[];
  /** An image, or `debootstrap`; default: the public one, or debootstrap where it cannot be fetched. */
  base?: string | undefined;
  say: (line: string) => void;
  /** Every line of the builder. */
  onLine?: (line: string) => void;
};

/** Builds the images and gives the builder that has them. */
export async function buildImages(options: BuildImagesOptions): Promise<Builder> {
  const { tag, targets = TARGETS, base, say, onLine } = options;
  const builder = await openBuilder(imagesFolder());
  const bases = await basesOf(builder, base, say);
  const npmrc = await npmSettings();
  for (const target of targets) {
    const begun = Date.now();
    const args: Record<string, string> = bases ? { BASE: bases.base, BUILD_BASE: bases.buildBase } : {};
    // Parts of other images are built with it wherever the builder does not leave out what a target does not need.
    if (bases) args.NATS = await natsImage(builder, bases.base);
    await builder.build(
      {
        image: imageName(target, tag),
        context: ROOT,
        containerfile: CONTAINERFILE,
        target,
        args,
        secrets: { npmrc },
      },
      onLine,
    );
    const megabytes = Math.round((await builder.size(imageName(target, tag))) / 1e6);
    say(`built ${imageName(target, tag)}: ${megabytes} MB, ${describeDuration(Date.now() - begun)}`);
  }
  return builder;
}

async function basesOf(
  builder: Builder,
  base: string | undefined,
  say: (line: string) => void,
): Promise<Bases | undefined> {
  if (base === 'debootstrap') return debootstrapBases(builder, say);
  const defaults = await readFile(CONTAINERFILE, 'utf8');
  const buildBase = /^ARG BUILD_BASE=(\S+)$/m.exec(defaults)?.[1] ?? '';
  if (await builder.obtainable(buildBase)) return base ? { base, buildBase } : undefined;
  if (base) throw new Error(`${buildBase}, in which the images are built, cannot be fetched`);
  say(`${buildBase} cannot be fetched`);
  return debootstrapBases(builder, say);
}

/** nats-server of the toolchain as an image, in place of the public one. */
async function natsImage(builder: Builder, base: string): Promise<string> {
  const { 'nats-server': server } = await resolveTools(['nats-server'], {
    report: progressPrinter(process.stderr),
  });
  const context = join(imagesFolder(), 'nats');
  await mkdir(context, { recursive: true });
  await copyFile(server, join(context, 'nats-server'));
  await chmod(join(context, 'nats-server'), 0o755);
  const containerfile = join(context, 'Containerfile');
  await writeFile(containerfile, `FROM ${base}\nCOPY nats-server /usr/local/bin/nats-server\n`);
  const image = 'localhost/semblance-nats-server:toolchain';
  await builder.build({ image, context, containerfile });
  return image;
}

/** This user's settings of npm, so that packages come from where they come from on this machine; never in an image. */
async function npmSettings(): Promise<string> {
  const own = process.env.NPM_CONFIG_USERCONFIG ?? join(homedir(), '.npmrc');
  if (existsSync(own)) return own;
  const empty = join(imagesFolder(), 'npmrc');
  await mkdir(imagesFolder(), { recursive: true });
  await writeFile(empty, '');
  return empty;
}

/** Names with commas between them; all for none. */
export function parseTargets(text: string | undefined): readonly Target[] {
  if (!text) return TARGETS;
  return text.split(',').map((name) => {
    const target = TARGETS.find((known) => known === name);
    if (!target) throw new Error(`--only ${name}: there are ${TARGETS.join(', ')}`);
    return target;
  });
}

export async function defaultTag(): Promise<string> {
  return (JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8')) as { version: string }).version;
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      tag: { type: 'string' },
      base: { type: 'string' },
      only: { type: 'string' },
      verbose: { type: 'boolean' },
    },
  });
  await buildImages({
    tag: values.tag ?? (await defaultTag()),
    base: values.base,
    targets: parseTargets(values.only),
    say: (line) => console.log(line),
    ...(values.verbose ? { onLine: (line: string) => console.log(line) } : {}),
  });
}

if (import.meta.main) {
  main().catch((error: unknown) => {
    console.error(describeError(error));
    process.exitCode = 1;
  });
}
