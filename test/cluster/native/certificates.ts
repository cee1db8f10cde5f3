// @peculiar/x509 needs this module to build its classes.
import 'reflect-metadata';
import { generateKeyPairSync, webcrypto } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import {
  BasicConstraintsExtension,
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  KeyUsageFlags,
  KeyUsagesExtension,
  PemConverter,
  SubjectAlternativeNameExtension,
  type X509Certificate,
  X509CertificateGenerator,
} from '@peculiar/x509';

const KEY = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const;
const DAY_MS = 86_400_000;

export type Certificates = {
  authority: string;
  apiserver: { cert: string; key: string };
  /** Certificate of the administrator; kube-apiserver also uses it towards the kubelet. */
  admin: { cert: string; key: string };
  /** Certificate that kube-apiserver uses towards servers of APIServices. Its authority issues nothing else. */
  aggregator: { authority: string; cert: string; key: string };
  serviceAccountKey: string;
};

/** Subject of the certificate that kube-apiserver uses towards servers of APIServices. */
export const AGGREGATOR = 'aggregator';

/** Creates an authority for one cluster and its certificates. Returns the paths of the files. */
export async function makeCertificates(dir: string, address: string): Promise<Certificates> {
  const file = (name: string) => join(dir, name);
  const own = await newAuthority(dir, 'authority', 'CN=semblance-test-cluster');
  const front = await newAuthority(dir, 'aggregator-authority', 'CN=semblance-test-aggregator');
  const domain = 'kubernetes.default.svc.cluster.local'.split('.');
  const serviceNames = [1, 2, 3, 5].map((parts) => domain.slice(0, parts).join('.'));
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  await writeFile(
    file('service-account.key'),
    privateKey.export({ type: 'pkcs1', format: 'pem' }).toString(),
    { mode: 0o600 },
  );
  return {
    authority: own.file,
    apiserver: await own.issue(
      'apiserver',
      'CN=kube-apiserver',
      ['localhost', ...serviceNames],
      ['127.0.0.1', address, '10.96.0.1'],
    ),
    admin: await own.issue('admin', 'CN=semblance-test, O=system:masters', [], []),
    aggregator: {
      authority: front.file,
      ...(await front.issue('aggregator', `CN=${AGGREGATOR}`, [], [])),
    },
    serviceAccountKey: file('service-account.key'),
  };
}

async function newAuthority(dir: string, name: string, subject: string) {
  const keys = await newKeys();
  const certificate = await X509CertificateGenerator.createSelfSigned({
    name: subject,
    ...validity(),
    keys,
    signingAlgorithm: KEY,
    extensions: [
      new BasicConstraintsExtension(true, undefined, true),
      new KeyUsagesExtension(KeyUsageFlags.keyCertSign | KeyUsageFlags.digitalSignature, true),
    ],
  });
  const issue = async (name: string, subject: string, names: string[], addresses: string[]) => {
    const its = await newKeys();
    const alternative = [
      ...names.map((value) => ({ type: 'dns' as const, value })),
      ...addresses.map((value) => ({ type: 'ip' as const, value })),
    ];
    const issued = await X509CertificateGenerator.create({
      subject,
      issuer: certificate.subject,
      ...validity(),
      publicKey: its.publicKey,
      signingKey: keys.privateKey,
      signingAlgorithm: KEY,
      extensions: [
        new KeyUsagesExtension(KeyUsageFlags.digitalSignature, true),
        new ExtendedKeyUsageExtension([ExtendedKeyUsage.serverAuth, ExtendedKeyUsage.clientAuth]),
        ...(alternative.length ? [new SubjectAlternativeNameExtension(alternative)] : []),
      ],
    });
    return {
      cert: await save(join(dir, `${name}.crt`), issued),
      key: await saveKey(join(dir, `${name}.key`), its),
    };
  };
  return { file: await save(join(dir, `${name}.crt`), certificate), issue };
}

function newKeys(): Promise<webcrypto.CryptoKeyPair> {
  return webcrypto.subtle.generateKey(KEY, true, ['sign', 'verify']) as Promise<webcrypto.CryptoKeyPair>;
}

function validity(): { notBefore: Date; notAfter: Date } {
  return { notBefore: new Date(Date.now() - DAY_MS), notAfter: new Date(Date.now() + 365 * DAY_MS) };
}

async function save(file: string, certificate: X509Certificate): Promise<string> {
  await writeFile(file, `${certificate.toString('pem')}\n`);
  return file;
}

async function saveKey(file: string, keys: webcrypto.CryptoKeyPair): Promise<string> {
  const raw = await webcrypto.subtle.exportKey('pkcs8', keys.privateKey);
  await writeFile(file, `${PemConverter.encode(raw, 'PRIVATE KEY')}\n`, { mode: 0o600 });
  return file;
}
