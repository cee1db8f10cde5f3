import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { parse } from 'yaml';
import { z } from 'zod';

/** Accepted names of a manifest; a model directory has exactly one. */
export const MANIFEST_NAMES = ['manifest.yaml', 'manifest.yml', 'manifest.json'] as const;
const MAX_BYTES = 1024 * 1024;

/** A path below the model directory. */
const path = z
  .string()
  .min(1)
  .max(512)
  .refine(
    (path) => !path.startsWith('/') && !/^[A-Za-z]:|\\|\0/.test(path),
    'must be a path below the model directory',
  )
  .refine((path) => !path.split('/').includes('..'), 'must not leave the model directory');

const sha256 = z
  .string()
  .regex(/^[0-9a-fA-F]{64}$/, 'must be 64 hexadecimal digits')
  .transform((text) => text.toLowerCase());

const url = z.url({ protocol: /^https?$/, error: 'must be an http or https address' }).max(2048);

const entry = z.strictObject({
  /** Name of the model in job records and messages. */
  name: z
    .string()
    .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/, 'must be letters, digits, ".", "_" or "-", at most 64'),
  file: path,
  sha256,
  /** Where `models fetch` gets the file. */
  url: url.optional(),
  /** Features of the training of a voice, a faiss IndexIVFFlat. */
  index: z.strictObject({ file: path, sha256, url: url.optional() }).optional(),
  /** Files that the model reads beside it, such as the JSON of a voice of Piper; without them their hashes are not checked. */
  beside: z
    .array(z.strictObject({ file: path, sha256, url: url.optional() }))
    .max(4)
    .optional(),
  /** Licence under which the owner uses the weights, for readers of the manifest and of the check's output. */
  licence: z.string().trim().min(1, 'must say under which licence the weights are used').max(500),
  /** Whether the licence forbids commercial use; without it the words of `licence` decide. */
  non_commercial: z.boolean().optional(),
  /** Who has said that the use keeps to a licence that forbids commercial use. */
  accepted_by: z.string().trim().min(1).max(200).optional(),
  /** Name of the contract: inputs and outputs of the model and their meaning; see contracts/. */
  contract: z.string().min(1).max(64),
  options: z.record(z.string(), z.unknown()).default({}),
});

/** What is done to a face, in the usual order. */
const STEPS = ['swapper', 'expression', 'enhancer'] as const;
export type Step = (typeof STEPS)[number];

const manifest = z
  .strictObject({
    version: z.literal(1),
    models: z.array(entry).min(1).max(64),
    order: z
      .array(z.enum(STEPS))
      .default([...STEPS])
      .refine(
        (order) => order.length === STEPS.length && new Set(order).size === STEPS.length,
        `must name each of ${STEPS.join(', ')} once`,
      )
      .refine(
        (order) => order.indexOf('swapper') < order.indexOf('expression'),
        'must have expression after swapper, which it repairs',
      ),
  })
  .superRefine(({ models }, context) => {
    const seen = new Set<string>();
    for (const [index, { name }] of models.entries()) {
      if (seen.has(name)) {
        context.addIssue({
          code: 'custom',
          path: ['models', index, 'name'],
          message: `${name} is there twice`,
        });
      }
      seen.add(name);
    }
  });

export type ManifestEntry = z.output<typeof entry>;
export type Manifest = z.output<typeof manifest>;

/** The manifest is missing, unreadable or malformed; the error names every fault. */
export class ManifestError extends Error {
  override readonly name = 'ManifestError';
  readonly faults: readonly string[];

  constructor(faults: readonly string[]) {
    super(faults.join('\n'));
    this.faults = faults;
  }
}

/** @throws ManifestError */
export async function readManifest(directory: string): Promise<Manifest> {
  const present: string[] = [];
  for (const name of MANIFEST_NAMES) {
    const found = await stat(join(directory, name)).catch(() => undefined);
    if (!found) continue;
    if (!found.isFile()) throw new ManifestError([`${name}: is not a file`]);
    if (found.size > MAX_BYTES) throw new ManifestError([`${name}: is larger than 1 MiB`]);
    present.push(name);
  }
  const [name] = present;
  if (name === undefined) {
    throw new ManifestError([`${directory}: has no manifest (${MANIFEST_NAMES.join(', ')})`]);
  }
  if (present.length > 1)
    throw new ManifestError([`${directory}: has ${present.join(' and ')}; keep one of them`]);
  let document: unknown;
  try {
    const text = await readFile(join(directory, name), 'utf8');
    document = name.endsWith('.json') ? JSON.parse(text) : parse(text);
  } catch (error) {
    throw new ManifestError([`${name}: cannot be read: ${(error as Error).message}`]);
  }
  return checkManifest(document, name);
}

/**
 * @param name of the file, for the message
 * @throws ManifestError
 */
export function checkManifest(document: unknown, name: string): Manifest {
  const result = manifest.safeParse(document);
  if (result.success) return result.data;
  throw new ManifestError(
    result.error.issues.map((issue) => `${name}: ${place(document, issue.path)}${issue.message}`),
  );
}

/** Returns the place of a fault, such as `models[1] (arcface), sha256: `. */
function place(document: unknown, path: readonly PropertyKey[]): string {
  const [first, index, ...rest] = path;
  if (first === undefined) return '';
  if (first !== 'models' || typeof index !== 'number') return `${path.map(String).join('.')}: `;
  const models = (document as { models?: readonly { name?: unknown }[] }).models;
  const name = models?.[index]?.name;
  const place = `models[${index}]${typeof name === 'string' ? ` (${name.slice(0, 64)})` : ''}`;
  return rest.length > 0 ? `${place}, ${rest.map(String).join('.')}: ` : `${place}: `;
}
