/**
 * @module-tag ffmpeg
 * @module-tag python
 */
import { createHash } from 'node:crypto';
import { copyFile, mkdtemp, open, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { silentLogger } from '@semblance/common/logging';
import type { Capability } from '@semblance/engine-api/capabilities';
import type { UsedModel } from '@semblance/engine-api/findings';
import { type SigningCertificate, signingCertificate } from '@semblance/local/stack/signing-certificate';
import { decoded, makeSamples, PORTRAIT, type Sample } from '@semblance/testkit/provenance/media';
import { readerPython, readManifests } from '@semblance/testkit/provenance/read-manifest';
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openMp4 } from './containers/mp4.ts';
import { createProvenance, type Provenance } from './provenance.ts';

const GENERATOR = { name: 'Semblance', version: '1.2.3' };
const EDITED = 'http://cv.iptc.org/newscodes/digitalsourcetype/compositeWithTrainedAlgorithmicMedia';
const GENERATED = 'http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia';
const idle = new AbortController().signal;

let dir: string;
let certificate: SigningCertificate;
let signing: Provenance;
let metadataOnly: Provenance;
let samples: Record<string, Sample>;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'semblance-provenance-'));
  certificate = await signingCertificate(join(dir, 'certificate'));
  const base = { generator: GENERATOR, logger: silentLogger() };
  signing = await createProvenance({ ...base, signer: certificate });
  metadataOnly = await createProvenance({ ...base, signer: undefined });
  samples = await makeSamples(dir);
  // The first run installs the reader.
  await readerPython();
}, 180_000);
afterAll(() => rm(dir, { recursive: true, force: true }));

const sampleOf = (name: string): Sample => samples[name] as Sample;

let count = 0;
/** Returns the marked file, with the file name extension of its type. */
async function mark(
  by: Provenance,
  sample: Sample,
  capability: Capability = 'face-swap-image',
  models: readonly UsedModel[] = [],
  options: Readonly<Record<string, string>> = {},
) {
  const extension = sample.file.slice(sample.file.lastIndexOf('.'));
  // Files are marked concurrently, so each has a number of its own.
  const name = `work-${++count}${extension}`;
  const path = join(dir, name);
  await copyFile(sample.file, path);
  const inputs = { image: PORTRAIT, face: sampleOf('jpeg').file, video: PORTRAIT };
  const { contentType } = sample;
  const engine = { name: 'builtin', version: '7' };
  const more = { models, options, signal: idle };
  const marked = await by.mark({ path, contentType, capability, engine, inputs, ...more });
  expect(await readdir(dir)).not.toContain(name);
  await rename(marked, path);
  return path;
}

const NAMES = [
  'jpeg',
  'progressive jpeg with Exif',
  'png',
  'lossy webp',
  'lossless webp with transparency',
  'mp4 with its index first',
  'mp4 with its index last',
];

/** Changes a byte of the picture or sound, beyond all inserted data. */
async function changeOneByte(file: string): Promise<string> {
  const bytes = await readFile(file);
  const mdat = bytes.indexOf('mdat');
  const at = mdat > 0 ? mdat + 1_000 : Math.floor(bytes.length * 0.7);
  bytes[at] = (bytes[at] ?? 0) ^ 0x01;
  const changed = file.replace('work-', 'changed-');
  await writeFile(changed, bytes);
  return changed;
}

describe('the reader of the C2PA project', () => {
  it('trusts every type of file, and sees one changed bit in any', async () => {
    const marked = await Promise.all(NAMES.map((name) => mark(signing, sampleOf(name))));
    const changed = await Promise.all(marked.map(changeOneByte));
    const read = await readManifests(certificate.authorityFile, [...marked, ...changed]);
    for (const [index, name] of NAMES.entries()) {
      expect(read[index], name).toMatchObject({ read: { validation_state: 'Trusted' } });
      expect(read[index], name).not.toHaveProperty('read.validation_status');
      const binding = name.startsWith('mp4') ? 'bmffHash' : 'dataHash';
      expect(read[NAMES.length + index], name).toMatchObject({
        read: {
          validation_state: 'Invalid',
          validation_status: [{ code: `assertion.${binding}.mismatch` }],
        },
      });
    }
  });

  it('is told what was done, by which engine, to which inputs, and nothing of their names', async () => {
    const file = await mark(signing, sampleOf('jpeg'));
    const [result] = await readManifests(certificate.authorityFile, [file]);
    if (!result || !('read' in result)) throw new Error('not read');
    const manifest = result.read.manifests[result.read.active_manifest];
    const sha256 = async (path: string) =>
      createHash('sha256')
        .update(await readFile(path))
        .digest('base64url');
    expect(manifest).toMatchObject({
      claim_generator_info: [{ name: 'Semblance', version: '1.2.3' }],
      signature_info: { alg: 'Es256', issuer: 'Semblance local stack' },
      ingredients: [
        { title: 'image', relationship: 'parentOf', instance_id: `ni:///sha-256;${await sha256(PORTRAIT)}` },
        {
          title: 'face',
          relationship: 'componentOf',
          instance_id: `ni:///sha-256;${await sha256(sampleOf('jpeg').file)}`,
        },
      ],
    });
    expect(manifest?.assertions[0]?.data.actions).toMatchObject([
      { action: 'c2pa.opened' },
      { action: 'c2pa.edited', digitalSourceType: EDITED, softwareAgent: { name: 'builtin', version: '7' } },
    ]);
    const bytes = await readFile(file);
    for (const name of ['astronaut', 'http://127', tmpdir()]) expect(bytes.includes(name), name).toBe(false);
  });

  it("is told of the owner's models, with their hashes and licences", async () => {
    const models = [
      { name: 'swapper-a', sha256: 'ab'.repeat(32), licence: 'Apache-2.0' },
      { name: 'restorer', sha256: '01'.repeat(32), licence: 'Büro für Gesichter, 2026' },
    ];
    for (const sample of ['jpeg', 'mp4 with its index first']) {
      const file = await mark(signing, sampleOf(sample), 'face-swap-image', models);
      const [result] = await readManifests(certificate.authorityFile, [file]);
      if (!result || !('read' in result)) throw new Error('not read');
      expect(result.read.validation_state).toBe('Trusted');
      expect(result.read.manifests[result.read.active_manifest]?.ingredients?.slice(2)).toMatchObject(
        models.map(({ name, sha256, licence }) => ({
          title: name,
          relationship: 'inputTo',
          instance_id: `ni:///sha-256;${Buffer.from(sha256, 'hex').toString('base64url')}`,
          description: `Licence: ${licence}`,
          data_types: [{ type: 'c2pa.types.model' }],
        })),
      );
    }
  });

  it('is told of the options of the engine, beside its ingredients, and of none where there are none', async () => {
    const options = { strength: '0.25', look: 'film', expression: 'true' };
    for (const [capability, given] of [
      ['face-swap-image', options],
      ['avatar', options],
      ['face-swap-image', {}],
    ] as const) {
      const sample = sampleOf(capability === 'avatar' ? 'mp4 with its index first' : 'png');
      const file = await mark(signing, sample, capability, [], given);
      const [result] = await readManifests(certificate.authorityFile, [file]);
      if (!result || !('read' in result)) throw new Error('not read');
      expect(result.read.validation_state).toBe('Trusted');
      const { actions } = result.read.manifests[result.read.active_manifest]?.assertions[0]?.data ?? {};
      const { parameters = {} } = actions?.at(-1) ?? {};
      const told = given === options ? options : undefined;
      expect(parameters).toHaveProperty('ingredients.length', 1);
      const stated = parameters as Record<string, unknown>;
      expect(stated['dev.semblance.options']).toEqual(told);
    }
  });

  it('is told of media that were made from nothing but a still that they were created', async () => {
    const file = await mark(signing, sampleOf('mp4 with its index first'), 'avatar');
    const [result] = await readManifests(certificate.authorityFile, [file]);
    if (!result || !('read' in result)) throw new Error('not read');
    const manifest = result.read.manifests[result.read.active_manifest];
    expect(result.read.validation_state).toBe('Trusted');
    expect(manifest?.ingredients).toMatchObject([{ title: 'image', relationship: 'inputTo' }]);
    expect(manifest?.assertions[0]?.data.actions).toMatchObject([
      { action: 'c2pa.created', digitalSourceType: GENERATED },
    ]);
  });

  it('finds one manifest, the last, in a file that was marked before', async () => {
    for (const name of NAMES) {
      const once = await mark(signing, sampleOf(name));
      const twice = await mark(signing, { ...sampleOf(name), file: once });
      const [result] = await readManifests(certificate.authorityFile, [twice]);
      expect(result, name).toMatchObject({ read: { validation_state: 'Trusted' } });
      const { size } = await sizeOf(twice);
      expect(size, name).toBe((await sizeOf(once)).size);
    }
  });
});

async function sizeOf(file: string) {
  await using handle = await open(file);
  return handle.stat();
}

describe('marking', () => {
  it.each(NAMES)('changes nothing that is seen or heard: %s', async (name) => {
    const sample = sampleOf(name);
    const before = await decoded(sample.file, sample.contentType);
    for (const by of [signing, metadataOnly]) {
      const marked = await mark(by, sample);
      expect((await decoded(marked, sample.contentType)) === before).toBe(true);
      const bytes = await readFile(marked);
      expect(bytes.includes(`Iptc4xmpExt:DigitalSourceType="${EDITED}"`)).toBe(true);
      expect(bytes.includes('c2pa.claim')).toBe(by === signing);
    }
  });

  it('copies the coded picture of a JPEG and its Exif byte by byte', async () => {
    const sample = sampleOf('progressive jpeg with Exif');
    const [before, after] = [await readFile(sample.file), await readFile(await mark(signing, sample))];
    const scan = (bytes: Buffer) => bytes.subarray(bytes.indexOf(Buffer.from([0xff, 0xda])));
    expect(scan(after).equals(scan(before))).toBe(true);
    const { exif, xmpAsString } = await sharp(after).metadata();
    expect(exif?.includes('kept')).toBe(true);
    expect(xmpAsString).toContain('xmp:CreatorTool="Semblance 1.2.3 (builtin 7)"');
  });

  it('replaces XMP that speaks of another file', async () => {
    const other = '<x:xmpmeta xmlns:x="adobe:ns:meta/"><private-note/></x:xmpmeta>';
    for (const [name, format] of [
      ['jpeg', 'jpeg'],
      ['png', 'png'],
      ['lossy webp', 'webp'],
    ] as const) {
      const file = join(dir, `other.${format}`);
      await sharp(PORTRAIT).resize(64).withXmp(other).toFormat(format).toFile(file);
      expect((await sharp(file).metadata()).xmpAsString, format).toContain('private-note');
      const marked = await mark(metadataOnly, { ...sampleOf(name), file });
      const { xmpAsString } = await sharp(marked).metadata();
      expect(xmpAsString, format).toContain(EDITED);
      expect(xmpAsString, format).not.toContain('private-note');
    }
  });

  it('refuses what is not the file it is said to be, or ends too early', async () => {
    for (const name of NAMES) {
      const sample = sampleOf(name);
      const file = join(dir, 'damaged');
      await writeFile(file, (await readFile(sample.file)).subarray(0, 40));
      const refused = { name: 'UnmarkableFileError' };
      await expect(mark(signing, { ...sample, file }), name).rejects.toMatchObject(refused);
      await writeFile(file, Buffer.alloc(4_000, 7));
      await expect(mark(signing, { ...sample, file }), name).rejects.toMatchObject(refused);
    }
    await expect(mark(signing, { ...sampleOf('png'), contentType: 'image/gif' })).rejects.toThrow(
      'image/gif carries no provenance',
    );
  });

  it('ends when it is told to, and leaves the place of the output alone', async () => {
    const path = join(dir, 'ended.mp4');
    await copyFile(sampleOf('mp4 with its index last').file, path);
    const reason = new Error('stopped');
    const marking = signing.mark({
      path,
      contentType: 'video/mp4',
      capability: 'face-swap',
      inputs: {},
      engine: GENERATOR,
      signal: AbortSignal.abort(reason),
    });
    await expect(marking).rejects.toBe(reason);
    expect((await sizeOf(path)).size).toBeGreaterThan(0);
  });

  it('holds the index of a video and not the video', async () => {
    const small = await readFile(sampleOf('mp4 with its index first').file);
    const file = join(dir, 'large.mp4');
    await using handle = await open(file, 'w+');
    await handle.write(small);
    // The box claims 6 GB, none of which is on disk.
    const header = Buffer.alloc(16);
    header.writeUInt32BE(1);
    header.write('free', 4);
    header.writeBigUInt64BE(6_000_000_000n, 8);
    await handle.write(header, 0, 16, small.length);
    await handle.truncate(small.length + 6_000_000_000);
    const container = await openMp4(handle, small.length + 6_000_000_000);
    const { pieces } = container.layout(Buffer.alloc(600), 4_000);
    const held = pieces.reduce((sum, piece) => sum + (piece.kind === 'bytes' ? piece.bytes.length : 0), 0);
    expect(held).toBeLessThan(10_000);
    expect(pieces.at(-1)).toEqual({ kind: 'range', start: small.length, length: 6_000_000_000 });
  });
});
