import { fileURLToPath } from 'node:url';
import { ConfigError } from '@semblance/common/config';
import { DirectoryStore } from './directory-store.ts';
import { GatewayStore } from './gateway-store.ts';
import { S3Store } from './s3-store.ts';
import type { ObjectStore } from './store.ts';

/** The settings of `objectsShape` in common/config. */
export interface OpenObjectStoreOptions {
  /**
   * `file:///absolute/folder`, `http(s)://host:port` of a gateway with such a folder, or `s3://bucket[/prefix]?region=…&endpoint=…&forcePathStyle=true&publicEndpoint=…`.
   */
  readonly url: string;
  /** Required by the directory store, also over HTTP. */
  readonly signingKey?: Buffer;
  readonly publicUrl: string;
  readonly internalUrl?: string;
}

export type OpenedObjectStore = ObjectStore & {
  /** Checks whether the store is usable; present if the store is another server. @throws StoreFault */
  check?(signal: AbortSignal, answerMs: number): Promise<void>;
  close(): Promise<void>;
};

/**
 * Opens the object store in the settings. The gateway serves a `DirectoryStore`; every other use is through the
 * interface.
 * @throws ConfigError when the settings are inconsistent
 */
export function openObjectStore(options: OpenObjectStoreOptions): OpenedObjectStore {
  const url = new URL(options.url);
  if (url.protocol === 'file:') {
    if (!options.signingKey)
      throw new ConfigError(
        'SEMBLANCE_OBJECTS_SIGNING_KEY is needed when SEMBLANCE_OBJECTS_URL is a directory',
      );
    return new DirectoryStore({
      folder: fileURLToPath(url),
      signingKey: options.signingKey,
      publicUrl: options.publicUrl,
      internalUrl: options.internalUrl,
    });
  }
  if (url.protocol === 'http:' || url.protocol === 'https:') {
    if (!options.signingKey)
      throw new ConfigError(
        'SEMBLANCE_OBJECTS_SIGNING_KEY is needed when SEMBLANCE_OBJECTS_URL is a gateway: the same as the gateway has',
      );
    if (options.url !== url.origin && options.url !== `${url.origin}/`)
      throw new ConfigError('SEMBLANCE_OBJECTS_URL of a gateway must be an origin, without a path');
    return new GatewayStore({
      url: url.origin,
      signingKey: options.signingKey,
      publicUrl: options.publicUrl,
      internalUrl: options.internalUrl,
    });
  }
  if (url.protocol === 's3:' && url.hostname) return new S3Store(s3Options(url));
  throw new ConfigError(
    'SEMBLANCE_OBJECTS_URL must name a directory (file:///…), a gateway (http://…) or a bucket (s3://…)',
  );
}

const S3_SETTINGS = ['region', 'endpoint', 'publicEndpoint', 'forcePathStyle'];

function s3Options(url: URL) {
  for (const name of url.searchParams.keys()) {
    if (!S3_SETTINGS.includes(name))
      throw new ConfigError(
        `SEMBLANCE_OBJECTS_URL: unknown setting "${name}"; known: ${S3_SETTINGS.join(', ')}`,
      );
  }
  const pathStyle = url.searchParams.get('forcePathStyle') ?? 'false';
  if (pathStyle !== 'true' && pathStyle !== 'false')
    throw new ConfigError('SEMBLANCE_OBJECTS_URL: forcePathStyle must be true or false');
  const prefix = url.pathname.replace(/^\/+|\/+$/g, '');
  return {
    bucket: url.hostname,
    prefix: prefix ? `${prefix}/` : '',
    region: url.searchParams.get('region') ?? process.env.AWS_REGION ?? 'us-east-1',
    endpoint: url.searchParams.get('endpoint') ?? undefined,
    publicEndpoint: url.searchParams.get('publicEndpoint') ?? undefined,
    forcePathStyle: pathStyle === 'true',
  };
}
