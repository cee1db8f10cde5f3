import { createHash, randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { open, rm } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { describeError } from '@semblance/common/errors';
import type { Logger } from '@semblance/common/logging';
import { type Capability, faceRoles } from '@semblance/engine-api/capabilities';
import type { UsedModel } from '@semblance/engine-api/findings';
import { assemble, boxesHash, dataHash, manifestSpan } from './assemble.ts';
import { UnmarkableFileError } from './containers/container.ts';
import { CONTAINERS } from './containers/index.ts';
import { draftManifest, type Program } from './manifest.ts';
import { type Credential, createSigner, type SignerFiles } from './signer.ts';
import { ORIGINS, type Origin } from './source-types.ts';
import { xmpPacket } from './xmp.ts';

/** Statement about provenance in the GpuAgent. */
export interface ProvenanceStatement {
  /** Whether outputs carry a signed manifest beside the metadata, which they always carry. */
  readonly manifests: boolean;
  /** Name of the signer that readers show. */
  readonly signedBy?: string;
  /** Expiry of the certificate. */
  readonly notAfter?: string;
  readonly message: string;
}

export interface MarkOptions {
  readonly path: string;
  readonly contentType: string;
  readonly capability: Capability;
  readonly engine: Program;
  /** Path of each input by its role. */
  readonly inputs: Readonly<Record<string, string>>;
  /** Models of the engine's owner that the output was made with. */
  readonly models?: readonly UsedModel[];
  /** Options that the engine was given, as text. */
  readonly options?: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
}

export interface Provenance {
  readonly statement: ProvenanceStatement;
  /** Checks that outputs can be signed, before work begins. @throws SigningCredentialError when they cannot */
  ready(): Promise<void>;
  /**
   * Writes the origin into a file. Returns the path of the marked file, which lies beside the given one; the given
   * file is removed.
   * @throws UnmarkableFileError, SigningCredentialError, or the signal's reason
   */
  mark(options: MarkOptions): Promise<string>;
}

export interface ProvenanceOptions {
  readonly signer: SignerFiles | undefined;
  readonly generator: Program;
  readonly logger: Logger;
  /** Called when the statement has changed. */
  readonly onChange?: () => void;
}

/** @throws SigningCredentialError when a certificate is configured that cannot sign */
export async function createProvenance(options: ProvenanceOptions): Promise<Provenance> {
  const { generator, logger } = options;
  const signer = options.signer && createSigner(options.signer);
  let statement: ProvenanceStatement = signer
    ? stated(await signer.current())
    : {
        manifests: false,
        message:
          'Outputs carry the IPTC source type in XMP. C2PA manifests are off: no certificate is configured.',
      };
  if (!signer) logger.warn('no certificate is configured: outputs carry metadata, and no signed manifest');

  const say = (next: ProvenanceStatement) => {
    if (JSON.stringify(next) === JSON.stringify(statement)) return;
    statement = next;
    options.onChange?.();
  };

  async function credential(): Promise<Credential | undefined> {
    try {
      const current = await signer?.current();
      if (current) say(stated(current));
      return current;
    } catch (error) {
      say({
        manifests: false,
        message: `Outputs cannot be signed, so none is made: ${describeError(error)}.`,
      });
      throw error;
    }
  }

  return {
    get statement() {
      return statement;
    },
    async ready() {
      await credential();
    },
    async mark(mark) {
      const origin = ORIGINS[mark.capability];
      if (!origin)
        throw new UnmarkableFileError(`where the output of ${mark.capability} comes from is not known`);
      const marked = `${mark.path}.marked`;
      await write(mark, marked, { origin, generator, credential: await credential() });
      await rm(mark.path);
      return marked;
    },
  };
}

function stated({ signedBy, notAfter }: Credential): ProvenanceStatement {
  return {
    manifests: true,
    signedBy,
    notAfter: notAfter.toISOString(),
    message: 'Outputs carry the IPTC source type in XMP, and a signed C2PA manifest.',
  };
}

interface Making {
  readonly origin: Origin;
  readonly generator: Program;
  readonly credential: Credential | undefined;
}

async function write(mark: MarkOptions, marked: string, making: Making): Promise<void> {
  const { contentType, engine, signal } = mark;
  const { origin, generator, credential } = making;
  const openContainer = CONTAINERS[contentType];
  if (!openContainer) throw new UnmarkableFileError(`${contentType} carries no provenance`);
  const { digitalSourceType, action } = origin;
  const instanceId = `xmp:iid:${randomUUID()}`;
  const creatorTool = `${generator.name} ${generator.version} (${engine.name} ${engine.version})`;
  const xmp = xmpPacket({ digitalSourceType, creatorTool, instanceId });

  await using file = await open(mark.path, 'r');
  await using target = await open(marked, 'wx', 0o600);
  const container = await openContainer(file, (await file.stat()).size);
  if (!credential) {
    await assemble(file, container.layout(xmp, undefined), undefined, target, signal);
    return;
  }
  const { binding } = container;
  const draft = draftManifest(
    {
      contentType,
      instanceId,
      generator,
      engine,
      digitalSourceType,
      action,
      binding,
      ingredients: await ingredientsOf(mark, origin),
      models: mark.models ?? [],
      options: mark.options ?? {},
    },
    credential,
  );
  const layout = container.layout(xmp, draft.length);
  const span = manifestSpan(layout);
  if (!span) throw new Error('the layout has no place for a manifest');
  const hash =
    binding === 'data' ? await dataHash(file, layout, signal) : await boxesHash(file, layout, signal);
  const manifest = await draft.seal(hash, span);
  await assemble(file, layout, container.wrap(manifest), target, signal);
}

async function ingredientsOf({ inputs, signal }: MarkOptions, { parts }: Origin) {
  const [, ...further] = faceRoles(inputs);
  const faces = further.flatMap((role) => (parts.face ? [[role, parts.face] as const] : []));
  return Promise.all(
    [...Object.entries(parts), ...faces].flatMap(([role, part]) => {
      const path = inputs[role];
      return path === undefined ? [] : [sha256Of(path, signal).then((sha256) => ({ role, part, sha256 }))];
    }),
  );
}

async function sha256Of(path: string, signal: AbortSignal): Promise<Uint8Array> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(path), hash, { signal });
  return hash.digest();
}
