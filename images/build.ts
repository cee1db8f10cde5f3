/**
 * `npm run images:build [-- --tag TAG --base IMAGE|debootstrap --only NAME,…]`: builds the images of Semblance, and the PostgreSQL and NATS for evaluation, and prints their sizes.
 */
import { existsSync } from 'node:fs';
import { chmod, copyFile, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { describeDuration, progressPrinter } from '@semblance/local/toolchain/progress';
import { resolveTools } from '@semblance/local/toolchain/toolchain';
import { imageName, runCommand } from './arguments.ts';
import { type Bases, debootstrapBases } from './base.ts';
import { type BuildImagesOptions, TARGETS, type Target } from './build-options.ts';
import { type Builder, imagesFolder, openBuilder } from './builder.ts';
import { withAdvice } from './disk-full.ts';
import { recordBuild } from './record.ts';

const ROOT = join(import.meta.dirname, '..');
/** Images with Node.js, which lists their parts when they are built. */
const WITH_SBOM: ReadonlySet<Target> = new Set(['semblance', 'semblance-agent']);
const CONTAINERFILE = join(import.meta.dirname, 'Containerfile');

/** Builds the images and returns the builder that has them. The caller must close it. */
export async function buildImages(options: BuildImagesOptions): Promise<Builder> {
  const { signal, cold = false, say } = options;
  const folder = imagesFolder();
  return withAdvice(folder, async () => {
    const builder = await openBuilder(folder, { signal, cold, say });
    try {
      await buildAll(builder, options);
      return builder;
    } catch (error) {
      // An error while closing must not replace the first error.
      await Promise.resolve(builder[Symbol.asyncDispose]()).catch(() => {});
      throw error;
    }
  });
}

async function buildAll(builder: Builder, options: BuildImagesOptions): Promise<void> {
  const { tag, targets = TARGETS, providers, record, signal, say, onLine } = options;
  const bases = await basesOf(builder, options);
  const npmrc = await npmSettings();
  const args: Record<string, string> = { ...(bases && { BASE: bases.base, BUILD_BASE: bases.buildBase }) };
  // Some builders also build stages that a target does not need, so NATS is needed for all images.
  if (bases?.made) args.NATS = await natsImage(builder, bases.base, signal);
  if (providers === 'cuda12') args.ONNXRUNTIME_NODE_INSTALL = providers;
  else if (providers) args.PROVIDERS = await providersImage(builder, providers);
  for (const target of targets) {
    const begun = Date.now();
    const image = imageName(target, tag);
    await builder.build(
      { image, context: ROOT, containerfile: CONTAINERFILE, target, args, secrets: { npmrc } },
      onLine,
    );
    const megabytes = Math.round((await builder.size(image)) / 1e6);
    say(`built ${image}: ${megabytes} MB, ${describeDuration(Date.now() - begun)}`);
  }
  if (!record) return;
  const { BASE, BUILD_BASE, NATS } = { ...(await defaultArguments()), ...args } as Record<string, string>;
  await recordBuild({
    builder,
    images: targets.map((target) => ({
      target,
      image: imageName(target, tag),
      hasSbom: WITH_SBOM.has(target),
    })),
    bases: { BASE, BUILD_BASE, ...(targets.includes('semblance-nats') ? { NATS } : {}) } as Record<
      string,
      string
    >,
    folder: record,
    signingKey: options.signingKey,
    root: ROOT,
  });
  say(`wrote the record of the build to ${record}${options.signingKey ? ', signed' : ''}`);
}

/** Returns the defaults of the arguments of the Containerfile. */
async function defaultArguments(): Promise<Record<string, string>> {
  const text = await readFile(CONTAINERFILE, 'utf8');
  return Object.fromEntries(
    [...text.matchAll(/^ARG (\w+)=(\S+)$/gm)].map(([, name, value]) => [name, value]),
  );
}

/** Returns the bases; undefined when the defaults of the Containerfile can be fetched. */
async function basesOf(
  builder: Builder,
  { base, buildBase, signal, say }: BuildImagesOptions,
): Promise<(Bases & { made: boolean }) | undefined> {
  const made = async () => ({ ...(await debootstrapBases(builder, say, signal)), made: true });
  if (base === 'debootstrap') return made();
  const { BASE = '', BUILD_BASE = '' } = await defaultArguments();
  const wanted = { base: base ?? BASE, buildBase: buildBase ?? BUILD_BASE, made: false };
  if (await builder.obtainable(wanted.buildBase)) return base || buildBase ? wanted : undefined;
  signal?.throwIfAborted();
  if (base || buildBase)
    throw new Error(`${wanted.buildBase}, in which the images are built, cannot be fetched: --build-base`);
  say(`${wanted.buildBase} cannot be fetched`);
  return made();
}

/** Builds an image with the toolchain's nats-server, to replace the public one. */
async function natsImage(builder: Builder, base: string, signal?: AbortSignal): Promise<string> {
  const { 'nats-server': server } = await resolveTools(['nats-server'], {
    report: progressPrinter(process.stderr),
    ...(signal ? { signal } : {}),
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

/** Builds an image from the providers in a folder, in the layout that the Containerfile expects. */
async function providersImage(builder: Builder, folder: string): Promise<string> {
  const context = join(imagesFolder(), 'providers');
  await rm(context, { recursive: true, force: true });
  await mkdir(context, { recursive: true });
  const files = (await readdir(folder)).filter((name) => /^libonnxruntime_providers_\w+\.so$/.test(name));
  if (!files.includes('libonnxruntime_providers_shared.so'))
    throw new Error(`${folder} lacks libonnxruntime_providers_shared.so, which every provider needs`);
  for (const name of files) await copyFile(join(folder, name), join(context, name));
  const containerfile = join(context, 'Containerfile');
  await writeFile(containerfile, 'FROM scratch\nCOPY *.so /providers/\n');
  const image = 'localhost/semblance-onnxruntime-providers:given';
  await builder.build({ image, context, containerfile });
  return image;
}

/**
 * Returns the user's npm settings, so that packages come from this machine's registry. The file never becomes part
 * of an image.
 */
async function npmSettings(): Promise<string> {
  const own = process.env.NPM_CONFIG_USERCONFIG ?? join(homedir(), '.npmrc');
  if (existsSync(own)) return own;
  const empty = join(imagesFolder(), 'npmrc');
  await mkdir(imagesFolder(), { recursive: true });
  await writeFile(empty, '');
  return empty;
}

const USAGE = `usage: npm run images:build -- [OPTION…]
`;

if (import.meta.main) {
  await runCommand(USAGE, [], async (options) => {
    await using _ = await buildImages({ ...options, say: (line) => console.log(line) });
  });
}
