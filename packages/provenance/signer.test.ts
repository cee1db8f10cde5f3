import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { silentLogger } from '@semblance/common/logging';
import { signingCertificate } from '@semblance/local/stack/signing-certificate';
import { certificates, type MadeCertificate } from '@semblance/testkit/provenance/certificates';
import { makeSamples, PORTRAIT } from '@semblance/testkit/provenance/media';
import { readManifests } from '@semblance/testkit/provenance/read-manifest';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createProvenance } from './provenance.ts';
import { createSigner } from './signer.ts';

let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'semblance-signer-'));
});
afterEach(() => rm(dir, { recursive: true, force: true }));

async function filesOf({ certificate, key }: MadeCertificate) {
  const files = { certificateFile: join(dir, 'certificate.pem'), keyFile: join(dir, 'key.pem') };
  await writeFile(files.certificateFile, certificate);
  await writeFile(files.keyFile, key);
  return files;
}

describe('a signer', () => {
  it.each(['P-256', 'P-384', 'P-521', 'Ed25519', 'RSA'] as const)(
    'signs by a key of %s',
    { tags: ['ffmpeg', 'python'] },
    async (kind) => {
      const authority = await certificates();
      const signer = await filesOf(await authority.issue({ key: kind }));
      const provenance = await createProvenance({
        signer,
        generator: { name: 'Semblance', version: '1' },
        logger: silentLogger(),
      });
      const { png } = await makeSamples(dir);
      const marked = await provenance.mark({
        path: png?.file ?? '',
        contentType: 'image/png',
        capability: 'face-swap-image',
        engine: { name: 'builtin', version: '1' },
        inputs: { image: PORTRAIT, face: PORTRAIT },
        signal: new AbortController().signal,
      });
      const authorityFile = join(dir, 'authority.pem');
      await writeFile(authorityFile, authority.pem);
      expect(await readManifests(authorityFile, [marked])).toMatchObject([
        { read: { validation_state: 'Trusted' } },
      ]);
      // One that the reader was not told of is no ground for trust.
      const { authorityFile: another } = await signingCertificate(join(dir, 'another'));
      const [distrusted] = await readManifests(another, [marked]);
      expect(distrusted).toMatchObject({
        read: { validation_state: 'Valid', validation_status: [{ code: 'signingCredential.untrusted' }] },
      });
    },
  );

  it.each([
    ['the key of another', { foreignKey: true }, 'the key is not that of the first certificate'],
    ['a certificate that has expired', { days: -1 }, 'the certificate expired at'],
    ['a certificate for servers', { purpose: '1.3.6.1.5.5.7.3.1' }, 'one of the purposes'],
    ['a certificate of an authority', { authority: true }, 'one of an authority'],
    ['a certificate of its own making', { selfSigned: true }, 'signed by itself'],
  ])('refuses %s', async (_title, change, message) => {
    const files = await filesOf(await (await certificates()).issue(change));
    await expect(createSigner(files).current()).rejects.toMatchObject({
      name: 'SigningCredentialError',
      message: expect.stringContaining(message),
    });
  });

  it('refuses files that are absent or damaged, and says which', async () => {
    const files = { certificateFile: join(dir, 'none.pem'), keyFile: join(dir, 'none-either.pem') };
    await expect(createSigner(files).current()).rejects.toThrow('none.pem');
    await writeFile(files.certificateFile, 'nothing');
    await writeFile(files.keyFile, 'nothing');
    await expect(createSigner(files).current()).rejects.toThrow('the certificate or its key is damaged');
  });

  it('takes a renewed certificate without a restart, and says so', async () => {
    const authority = await certificates();
    const files = await filesOf(await authority.issue({ organization: 'Before' }));
    let changes = 0;
    const provenance = await createProvenance({
      signer: files,
      generator: { name: 'Semblance', version: '1' },
      logger: silentLogger(),
      onChange: () => changes++,
    });
    expect(provenance.statement).toMatchObject({ manifests: true, signedBy: 'Before' });
    await filesOf(await authority.issue({ organization: 'Afterwards' }));
    await provenance.ready();
    expect(provenance.statement).toMatchObject({ manifests: true, signedBy: 'Afterwards' });
    await rm(files.keyFile);
    await expect(provenance.ready()).rejects.toMatchObject({ name: 'SigningCredentialError' });
    expect(provenance.statement).toMatchObject({
      manifests: false,
      message: expect.stringContaining('Outputs cannot be signed'),
    });
    expect(changes).toBe(2);
  });
});

describe('the certificate of a stack', () => {
  it('is made once and kept, and made anew when its authority is', async () => {
    const { current: first } = createSigner(await signingCertificate(dir));
    const before = await first();
    const { current: second } = createSigner(await signingCertificate(dir));
    expect((await second()).cose.certificate.serialNumber).toBe(before.cose.certificate.serialNumber);
    await rm(join(dir, 'authority-key.pem'));
    const { current: third } = createSigner(await signingCertificate(dir));
    expect((await third()).cose.certificate.serialNumber).not.toBe(before.cose.certificate.serialNumber);
  });
});
