import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type ChannelCredentials, type ChannelOptions, experimental } from '@grpc/grpc-js';
import { ConfigError } from '../../config.ts';
import { describeError } from '../../errors.ts';
import type { Logger } from '../../logging.ts';
import { type Component, nameOf } from './components.ts';
import {
  checkAuthorities,
  checkMaterial,
  type Material,
  MaterialError,
  type MaterialFiles,
} from './material.ts';
import type { OwnCertificate } from './own-certificate.ts';

const { createCertificateProviderChannelCredentials } = experimental;
type Provider = experimental.CertificateProvider;
type CaListener = Parameters<Provider['addCaCertificateListener']>[0];
type IdentityListener = Parameters<Provider['addIdentityCertificateListener']>[0];

/** Default of `pollMs`. Kubernetes itself takes about a minute to bring a changed Secret into a Pod. */
const POLL_MS = 5_000;

export interface TlsOptions<Dir extends string | undefined> {
  /**
   * Folder with `tls.crt`, `tls.key` and `ca.crt`, as a Secret of type kubernetes.io/tls is mounted. Undefined: no
   * TLS.
   */
  readonly dir: Dir;
  /** This service. Its certificate must name it. */
  readonly component: Component;
  /** Certificate that this process made for itself. Of the files only `ca.crt` is read then. */
  readonly own?: OwnCertificate | undefined;
  readonly logger: Logger;
  /** Interval between two reads of the files, in ms. Default 5,000. */
  readonly pollMs?: number;
}

/** Credentials and options by which a client reaches the servers of one component. */
export interface SecureChannel {
  readonly credentials: ChannelCredentials;
  readonly options: ChannelOptions;
}

/** A service's own certificate and the authorities that it trusts. It reloads the files when they change. */
export interface Tls {
  readonly component: Component;
  readonly logger: Logger;
  readonly current: Material;
  /**
   * Returns the settings of a client of `component`. The server must prove to be that component: by a certificate of
   * an authority, or by exactly the given one, in PEM, which it made for itself.
   */
  to(component: Component, certificate?: string): SecureChannel;
  /** Registers a listener for renewed material. @returns a function that removes the listener */
  onChange(listener: (material: Material) => void): () => void;
  close(): void;
}

/**
 * Reads the certificate of a service and reloads it when it is renewed. New connections use what was read last;
 * open connections continue. Unfit files change nothing and are logged, once for each fault.
 * @throws ConfigError when the files are unfit at the start
 */
export async function openTls<D extends string | undefined>(
  options: TlsOptions<D>,
): Promise<D extends string ? Tls : Tls | undefined>;
export async function openTls(options: TlsOptions<string | undefined>): Promise<Tls | undefined> {
  return options.dir === undefined ? undefined : follow({ ...options, dir: options.dir });
}

async function follow(options: TlsOptions<string>): Promise<Tls> {
  const { dir, component, own, logger } = options;
  const check = (files: MaterialFiles) =>
    own ? checkAuthorities(files) : checkMaterial(files, nameOf(component));
  let current: Material;
  try {
    current = check(await readFiles(dir, own));
  } catch (error) {
    const message = `The environment is not usable:\n  SEMBLANCE_TLS_DIR: ${dir}: ${describeError(error)}`;
    throw new ConfigError(message, { cause: error });
  }
  const listeners = new Set<(material: Material) => void>();
  let fault: string | undefined;
  let closed = false;

  async function look(): Promise<void> {
    try {
      const files = await readFiles(dir, own);
      if (closed) return;
      if (!isSame(files, current)) {
        current = check(files);
        logger.info({ notAfter: current.notAfter }, 'renewed the certificate: new connections use it');
        for (const listener of listeners) listener(current);
      }
      fault = undefined;
    } catch (error) {
      const seen = describeError(error);
      if (seen === fault || closed) return;
      fault = seen;
      logger.error(
        { err: error, dir, notAfter: current.notAfter },
        `cannot renew the certificate, the former one stays in use: ${seen}`,
      );
    }
  }

  let timer = setTimeout(async function again() {
    await look();
    if (!closed) timer = setTimeout(again, options.pollMs ?? POLL_MS).unref();
  }, options.pollMs ?? POLL_MS).unref();

  const onChange = (listener: (material: Material) => void) => {
    listeners.add(listener);
    return () => void listeners.delete(listener);
  };
  const provider = createProvider(() => current, onChange);
  const credentials = createCertificateProviderChannelCredentials(provider, provider);
  const only = (certificate: string) =>
    createCertificateProviderChannelCredentials(providerOf(Buffer.from(certificate)), provider);
  return {
    component,
    logger,
    get current() {
      return current;
    },
    to: (server, certificate) => ({
      credentials: certificate === undefined ? credentials : only(certificate),
      options: { 'grpc.ssl_target_name_override': nameOf(server) },
    }),
    onChange,
    close() {
      closed = true;
      clearTimeout(timer);
    },
  };
}

async function readFiles(dir: string, own?: OwnCertificate): Promise<MaterialFiles> {
  const read = (name: string) =>
    readFile(join(dir, name)).catch((cause: NodeJS.ErrnoException) => {
      const why = cause.code === 'ENOENT' ? 'is missing' : `cannot be read (${cause.code})`;
      throw new MaterialError(`${name} ${why}`, { cause });
    });
  if (own) return { ...own, authority: await read('ca.crt') };
  const [certificate, key, authority] = await Promise.all([read('tls.crt'), read('tls.key'), read('ca.crt')]);
  return { certificate, key, authority };
}

function isSame(files: MaterialFiles, other: MaterialFiles): boolean {
  return (['certificate', 'key', 'authority'] as const).every((name) => files[name].equals(other[name]));
}

/** Creates a provider that trusts one certificate alone. */
function providerOf(caCertificate: Buffer): Provider {
  return {
    addCaCertificateListener: (listener) => process.nextTick(() => listener({ caCertificate })),
    removeCaCertificateListener() {},
    addIdentityCertificateListener() {},
    removeIdentityCertificateListener() {},
  };
}

/**
 * Creates a provider that gives the current material to the channels. The library's own file provider passes on
 * whatever it reads, so a half-written file would cut the service off until the next read.
 */
function createProvider(current: () => Material, onChange: Tls['onChange']): Provider {
  const authorityListeners = new Map<CaListener, () => void>();
  const identityListeners = new Map<IdentityListener, () => void>();
  const tellFrom = <L>(listeners: Map<L, () => void>, listener: L, tell: (material: Material) => void) => {
    listeners.get(listener)?.();
    listeners.set(listener, onChange(tell));
    process.nextTick(() => tell(current()));
  };
  const leave = <L>(listeners: Map<L, () => void>, listener: L) => {
    listeners.get(listener)?.();
    listeners.delete(listener);
  };
  return {
    addCaCertificateListener: (listener) =>
      tellFrom(authorityListeners, listener, ({ authority }) => listener({ caCertificate: authority })),
    removeCaCertificateListener: (listener) => leave(authorityListeners, listener),
    addIdentityCertificateListener: (listener) =>
      tellFrom(identityListeners, listener, ({ certificate, key }) =>
        listener({ certificate, privateKey: key }),
      ),
    removeIdentityCertificateListener: (listener) => leave(identityListeners, listener),
  };
}
