import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { describeError } from '@semblance/common/errors';
import { type BuildImagesOptions, TARGETS, type Target } from './build-options.ts';

const ROOT = join(import.meta.dirname, '..');

export const imageName = (target: Target, tag: string) => `localhost/${target}:${tag}`;

export async function defaultTag(): Promise<string> {
  return (JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8')) as { version: string }).version;
}

/** The command line is invalid, or this machine cannot provide what it asks for; the message says what to do. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

const BUILD_USAGE = `
  --tag TAG          tag of the images; default: the version in package.json
  --only NAME,…      of ${TARGETS.join(', ')}; default: all
  --base IMAGE       what they stand on, a Debian or Ubuntu with apt; debootstrap: made here of Debian's packages;
                     default: debian:bookworm-slim, or debootstrap where that cannot be fetched
  --build-base IMAGE has Node.js and npm; default: node:…-bookworm-slim
  --providers DIR    the libonnxruntime_providers_*.so that the agent's image is to have, for CUDA;
                     cuda12: fetched from NuGet
  --record DIR       writes what was made of what, the parts of each image (SBOM), and their checksums
  --signing-key FILE signs those checksums, with an ECDSA key of the curve P-256 in PEM
  --no-cache         takes over nothing from former builds
  --verbose          shows all that the builder says`;

export type ImageArguments<Extra extends string> = Omit<BuildImagesOptions, 'say'> & {
  targets: readonly Target[];
  extra: Partial<Record<Extra, string>>;
};

/**
 * Parses the arguments of `images:build` and `images:load`, without the names of node and of the program.
 * @param extra options with a value that only this command has
 * @returns 'help' if help is requested
 * @throws UsageError
 */
export async function readArguments<Extra extends string = never>(
  words: readonly string[],
  extra: readonly Extra[] = [],
): Promise<ImageArguments<Extra> | 'help'> {
  const text = { type: 'string' } as const;
  const flag = { type: 'boolean' } as const;
  const values = parsed(words, {
    tag: text,
    only: text,
    base: text,
    'build-base': text,
    providers: text,
    record: text,
    'signing-key': text,
    'no-cache': flag,
    verbose: flag,
    help: flag,
    ...Object.fromEntries(extra.map((name) => [name, text])),
  });
  if (values.help) return 'help';
  const { providers } = values;
  if (typeof providers === 'string' && providers !== 'cuda12' && !existsSync(providers))
    throw new UsageError(`--providers: there is no folder ${providers}; cuda12 fetches them from NuGet`);
  return {
    tag: tagOf(values.tag) ?? (await defaultTag()),
    targets: targetsOf(values.only),
    base: textOf(values.base),
    buildBase: textOf(values['build-base']),
    providers: textOf(providers),
    record: textOf(values.record),
    signingKey: signingKeyOf(values['signing-key'], values.record),
    cold: values['no-cache'] === true,
    ...(values.verbose ? { onLine: (line: string) => console.log(line) } : {}),
    extra: Object.fromEntries(extra.map((name) => [name, values[name]])) as Partial<Record<Extra, string>>,
  };
}

function parsed(words: readonly string[], options: Record<string, { type: 'string' | 'boolean' }>) {
  try {
    return parseArgs({ args: [...words], options }).values;
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}

const textOf = (value: unknown) => (typeof value === 'string' && value ? value : undefined);

function signingKeyOf(value: unknown, record: unknown): string | undefined {
  const file = textOf(value);
  if (file !== undefined && !textOf(record))
    throw new UsageError('--signing-key signs the record of the build: name its folder by --record');
  if (file !== undefined && !existsSync(file))
    throw new UsageError(`--signing-key: there is no file ${file}`);
  return file;
}

function tagOf(value: unknown): string | undefined {
  const tag = textOf(value);
  if (tag !== undefined && !/^\w[\w.-]{0,127}$/.test(tag))
    throw new UsageError(`--tag ${tag}: letters, digits, ".", "_" and "-" alone, at most 128`);
  return tag;
}

/** Parses a comma-separated list of names; an empty list means all targets. */
function targetsOf(value: unknown): readonly Target[] {
  const names = textOf(value)?.split(',');
  if (!names) return TARGETS;
  return names.map((name) => {
    const target = TARGETS.find((known) => known === name);
    if (!target) throw new UsageError(`--only ${name}: there are ${TARGETS.join(', ')}`);
    return target;
  });
}

/**
 * Runs a command of `npm run`: parses its arguments and cancels the work on SIGINT or SIGTERM. The exit status is 0
 * on success, 1 on failure, 2 for an invalid command line, 130 after an interruption.
 */
export async function runCommand<Extra extends string = never>(
  usage: string,
  extra: readonly Extra[],
  work: (options: ImageArguments<Extra> & { signal: AbortSignal }) => Promise<void>,
): Promise<void> {
  const interrupted = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM'] as const)
    process.once(name, () => interrupted.abort(new Error(`ended by ${name}`)));
  const { signal } = interrupted;
  try {
    const read = await readArguments(process.argv.slice(2), extra);
    if (read === 'help') console.log(usage + BUILD_USAGE);
    else await work({ ...read, signal });
  } catch (error) {
    if (signal.aborted) {
      console.error(`${describeError(signal.reason)}; what was built so far is used next time`);
      process.exitCode = 130;
    } else {
      console.error(describeError(error));
      if (error instanceof UsageError) console.error('--help tells all options');
      process.exitCode = error instanceof UsageError ? 2 : 1;
    }
  }
}
