import { createHash, createPrivateKey, sign } from 'node:crypto';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { run } from '@semblance/common/process/run';
import type { Builder } from './builder-contract.ts';

/** Where the images that have Node.js keep the list of their parts (sbom.ts). */
export const SBOM_PATH = '/usr/local/share/doc/semblance/sbom.cdx.json';
const SUMS = 'SHA256SUMS';

export interface BuiltImage {
  readonly target: string;
  readonly image: string;
  readonly hasSbom: boolean;
}

export interface RecordOptions {
  readonly builder: Pick<Builder, 'id' | 'layers' | 'baseDigest' | 'readFile' | 'name'>;
  readonly images: readonly BuiltImage[];
  /** Images that those stand on, by the argument of the Containerfile. */
  readonly bases: Readonly<Record<string, string>>;
  readonly folder: string;
  /** PEM file of a private key (ECDSA, P-256). Undefined: the record is not signed. */
  readonly signingKey?: string | undefined;
  readonly root: string;
}

/**
 * Writes the record of a build into a folder: `images.json` with what was built of what, the parts of each image, and the
 * checksums of these files. With a key the checksums are signed as `cosign sign-blob` does, so that `cosign verify-blob`
 * and openssl check them.
 */
export async function recordBuild(options: RecordOptions): Promise<void> {
  const { builder, folder, images, bases, signingKey } = options;
  await mkdir(folder, { recursive: true });
  for (const { target, image, hasSbom } of images)
    if (hasSbom)
      await writeFile(join(folder, `${target}.cdx.json`), await builder.readFile(image, SBOM_PATH));
  const record = {
    commit: (await run('git', ['rev-parse', 'HEAD'], { cwd: options.root })).trim(),
    uncommitted: (await run('git', ['status', '--porcelain'], { cwd: options.root })).trim() !== '',
    builder: builder.name,
    bases: Object.fromEntries(
      await Promise.all(
        Object.entries(bases).map(async ([name, image]) => [
          name,
          { image, digest: await builder.baseDigest(image) },
        ]),
      ),
    ),
    images: await Promise.all(
      images.map(async ({ target, image }) => ({
        target,
        image,
        id: await builder.id(image),
        layers: await builder.layers(image),
      })),
    ),
  };
  await writeFile(join(folder, 'images.json'), `${JSON.stringify(record, undefined, 2)}\n`);
  await writeSums(folder);
  if (signingKey) await signSums(folder, signingKey);
}

async function writeSums(folder: string): Promise<void> {
  const names = (await readdir(folder)).filter((name) => name.endsWith('.json')).sort();
  const lines = await Promise.all(
    names.map(async (name) => {
      const hash = createHash('sha256').update(await readFile(join(folder, name)));
      return `${hash.digest('hex')}  ${name}\n`;
    }),
  );
  await writeFile(join(folder, SUMS), lines.join(''));
}

async function signSums(folder: string, keyFile: string): Promise<void> {
  const key = createPrivateKey(await readFile(keyFile));
  if (key.asymmetricKeyDetails?.namedCurve !== 'prime256v1')
    throw new Error(
      `${keyFile} is no ECDSA key of the curve P-256 (openssl ecparam -name prime256v1 -genkey)`,
    );
  const signature = sign('sha256', await readFile(join(folder, SUMS)), key);
  await writeFile(join(folder, `${SUMS}.sig`), `${signature.toString('base64')}\n`);
}
