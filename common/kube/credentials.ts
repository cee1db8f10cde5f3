import { createHash } from 'node:crypto';
import type { RequestOptions } from 'node:https';
import { type Cluster, KubeConfig } from '@kubernetes/client-node';
import { Agent, type Dispatcher, ProxyAgent } from 'undici';
import { KubeError } from './errors.ts';

/** Interval in ms after which credentials are read again, so that rotated tokens and certificates come into use. */
const REREAD_MS = 5_000;

export interface Access {
  /** Origin and path prefix of the API server. */
  readonly server: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Connection pool for requests, which share connections. */
  readonly requests: Dispatcher;
  /** Connection pool for watches, each of which holds a connection for minutes. */
  readonly watches: Dispatcher;
}

export interface CredentialsOptions {
  /** Path of a kubeconfig file. Absent: the Pod's service account. */
  readonly kubeconfigPath?: string;
  readonly connections: number;
}

export interface Credentials {
  access(): Promise<Access>;
  /** Discards the credentials, after the server refused them. */
  forget(): void;
  close(): Promise<void>;
}

type Tls = Pick<
  RequestOptions,
  'ca' | 'cert' | 'key' | 'pfx' | 'passphrase' | 'rejectUnauthorized' | 'servername'
>;

/**
 * Reads the server address and the credentials with the client library's KubeConfig (files, inline data, exec
 * plugins, OIDC, service account token). Keeps one pair of connection pools while the TLS material stays the same,
 * because the library itself opens a new pool, with a TLS handshake, for every request.
 * @throws Error when there is no usable configuration
 */
export function createCredentials(options: CredentialsOptions): Credentials {
  const config = new KubeConfig();
  if (options.kubeconfigPath) load(config, options.kubeconfigPath);
  else if (process.env.KUBERNETES_SERVICE_HOST) config.loadFromCluster();
  else {
    throw new Error(
      'KUBECONFIG is not set and this process is not in a pod: there is no Kubernetes API to use',
    );
  }
  const cluster = config.getCurrentCluster();
  if (!cluster) throw new Error(`${options.kubeconfigPath ?? 'the service account'} selects no cluster`);
  const server = cluster.server.replace(/\/+$/, '');

  let pools:
    | { readonly key: string; readonly requests: Dispatcher; readonly watches: Dispatcher }
    | undefined;
  let current: Promise<Access> | undefined;
  let readAt = 0;

  async function read(): Promise<Access> {
    const tls: RequestOptions = {};
    try {
      await config.applyToHTTPSOptions(tls);
    } catch (error) {
      throw new KubeError('the credentials for the Kubernetes API cannot be read', {
        code: 'unauthorized',
        cause: error,
      });
    }
    const headers: Record<string, string> = {};
    for (const [name, value] of Object.entries(tls.headers ?? {}))
      headers[name.toLowerCase()] = String(value);
    if (tls.auth) headers.authorization = `Basic ${Buffer.from(tls.auth).toString('base64')}`;
    const key = fingerprint(tls);
    if (pools?.key !== key) {
      const former = pools;
      pools = { key, ...createPools(config, cluster as Cluster, tls, options.connections) };
      // Requests under way end on the former pools.
      void former?.requests.close();
      void former?.watches.close();
    }
    return { server, headers, requests: pools.requests, watches: pools.watches };
  }

  return {
    access() {
      if (!current || performance.now() - readAt > REREAD_MS) {
        readAt = performance.now();
        const reading = read();
        current = reading;
        reading.catch(() => {
          if (current === reading) current = undefined;
        });
      }
      return current;
    },
    forget() {
      current = undefined;
    },
    async close() {
      current = undefined;
      await Promise.all([pools?.requests.destroy(), pools?.watches.destroy()]);
    },
  };
}

function load(config: KubeConfig, path: string): void {
  try {
    config.loadFromFile(path);
  } catch (error) {
    throw new Error(`the kubeconfig ${path} cannot be read`, { cause: error });
  }
}

function fingerprint(tls: Tls): string {
  const hash = createHash('sha256');
  for (const part of [tls.ca, tls.cert, tls.key, tls.pfx, tls.passphrase, tls.servername]) {
    hash.update(part === undefined ? '-' : String(part)).update('\0');
  }
  return hash.update(String(tls.rejectUnauthorized)).digest('base64');
}

function createPools(config: KubeConfig, cluster: Cluster, tls: Tls, connections: number) {
  const { ca, cert, key, pfx, passphrase, rejectUnauthorized, servername } = tls;
  const material = { ca, cert, key, pfx, passphrase, rejectUnauthorized, servername };
  const defined = Object.fromEntries(Object.entries(material).filter(([, value]) => value !== undefined));
  const described = config.createDispatcherOptions(cluster, defined);
  if (described.type === 'socks') {
    throw new KubeError(`proxy-url ${described.uri}: SOCKS proxies are not supported, use an HTTP proxy`, {
      code: 'invalid',
    });
  }
  // HTTP/1.1 only: in undici 8.12 a request aborted on an HTTP/2 connection can leave its client in an endless
  // loop.
  const pool = (options: Agent.Options): Dispatcher => {
    const limits = { ...options, allowH2: false };
    const connect = { ...defined, keepAlive: true, keepAliveInitialDelay: 15_000, timeout: 5_000 };
    if (described.type === 'proxy') {
      return new ProxyAgent({ ...limits, uri: described.uri, requestTls: described.requestTls });
    }
    return new Agent({ ...limits, connect });
  };
  return {
    // The API server closes idle connections after 90 s, so the client closes them earlier.
    requests: pool({ connections, keepAliveTimeout: 60_000, keepAliveMaxTimeout: 60_000 }),
    watches: pool({ keepAliveTimeout: 10_000 }),
  };
}
