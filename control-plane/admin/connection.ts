import { randomUUID } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { type Client, credentials, loadPackageDefinition, Metadata, type ServiceError } from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { CODE_KEY, REQUEST_ID_KEY } from '@semblance/common/grpc/status';
import { openTls } from '@semblance/common/grpc/tls/tls';
import { silentLogger } from '@semblance/common/logging';
import { ACTOR_KEY } from '../audit/actor.ts';

const ROOT = join(import.meta.dirname, '..', '..');
const TIMEOUT_MS = 10_000;
/** Time limit of calls that recompute the books of an account, in ms; the database gives up earlier. */
const RECOMPUTING_MS = 400_000;
/** Time after which a person is told that the call goes on, in ms. */
const LONG_MS = 4_000;
const RECOMPUTING = new Set(['showAccount', 'topUpAccount']);

/** Reason for the failure of an admin command, by the API's code or `unreachable`, `not_running`. */
export class AdminError extends Error {
  override readonly name = 'AdminError';
  readonly code: string;
  readonly retryable: boolean;

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.retryable = code === 'unreachable' || code === 'internal_error';
  }
}

export interface Endpoint {
  /** `host:port` of the control plane. */
  readonly address: string;
  readonly token: string;
  /** Folder of the control plane's own certificate; undefined: the connection is not encrypted. */
  readonly tlsDir?: string | undefined;
}

/**
 * Finds the control plane: SEMBLANCE_CONTROL_ADDRESS and SEMBLANCE_ADMIN_TOKEN, or the files of the local stack in
 * its folder (SEMBLANCE_STATE_DIR, or `.semblance`): `stack.json`, with the address in it or in `control.json`
 * beside it. With SEMBLANCE_TLS_DIR, as in the control plane's Pod, the connection uses mutual TLS.
 * @throws AdminError not_running
 */
export function findEndpoint(env: NodeJS.ProcessEnv = process.env): Endpoint {
  const { SEMBLANCE_CONTROL_ADDRESS: address, SEMBLANCE_ADMIN_TOKEN: token } = env;
  const tlsDir = env.SEMBLANCE_TLS_DIR || undefined;
  if (address && token) return { address, token, tlsDir };
  const folder = resolve(env.SEMBLANCE_STATE_DIR || '.semblance');
  try {
    const stack = {
      ...readObject(join(folder, 'control.json'), {}),
      ...readObject(join(folder, 'stack.json')),
    };
    const found = { address: address || stack.control_address, token: token || stack.admin_token };
    if (typeof found.address === 'string' && typeof found.token === 'string')
      return {
        address: found.address,
        token: found.token,
        tlsDir: tlsDir ?? (typeof stack.tls_dir === 'string' ? stack.tls_dir : undefined),
      };
    throw new TypeError('no control_address or no admin_token in it');
  } catch (cause) {
    throw new AdminError(
      'not_running',
      `No local stack is running in ${folder} (${(cause as Error).message}). Start one with npm start, or set SEMBLANCE_CONTROL_ADDRESS and SEMBLANCE_ADMIN_TOKEN.`,
      { cause },
    );
  }
}

function readObject(file: string, otherwise?: object): Record<string, unknown> {
  if (otherwise && !existsSync(file)) return { ...otherwise };
  return JSON.parse(readFileSync(file, 'utf8'));
}

export interface AdminCalls {
  /** Calls a method of AdminService by its name in camel case; 64-bit numbers are strings in both directions. */
  invoke(method: string, request: Record<string, unknown>): Promise<Record<string, unknown>>;
  close(): void;
}

type Method = (
  request: unknown,
  metadata: Metadata,
  options: { deadline: number },
  callback: (error: ServiceError | null, response: Record<string, unknown>) => void,
) => void;

/**
 * Connects to the control plane with the .proto file itself, so that the command needs no generated code.
 * @param actor for the audit
 * @param onLong called when recomputing the books takes more than a few seconds
 */
export async function connectAdmin(
  { address, token, tlsDir }: Endpoint,
  actor: string,
  onLong: () => void = () => {},
): Promise<AdminCalls> {
  const definition = loadSync('semblance/admin/v1/admin.proto', {
    includeDirs: [join(ROOT, 'proto')],
    longs: String,
    defaults: true,
    oneofs: true,
  });
  const loaded = loadPackageDefinition(definition) as unknown as {
    semblance: {
      admin: { v1: { AdminService: new (...args: unknown[]) => Client & Record<string, Method> } };
    };
  };
  const tls = await openTls({ dir: tlsDir, component: 'control-plane', logger: silentLogger() });
  const secure = tls?.to('control-plane');
  const client = new loaded.semblance.admin.v1.AdminService(
    address,
    secure?.credentials ?? credentials.createInsecure(),
    { ...secure?.options },
  );
  const metadata = new Metadata();
  metadata.set('authorization', `Bearer ${token}`);
  metadata.set(ACTOR_KEY, encodeURIComponent(actor.toWellFormed()));
  metadata.set(REQUEST_ID_KEY, randomUUID());
  return {
    invoke(method, request) {
      const call = client[method];
      if (typeof call !== 'function') throw new TypeError(`AdminService has no method ${method}`);
      const recomputes = RECOMPUTING.has(method);
      const timeoutMs = recomputes ? RECOMPUTING_MS : TIMEOUT_MS;
      const patience = recomputes ? setTimeout(onLong, LONG_MS) : undefined;
      return new Promise((resolve, reject) => {
        call.call(client, request, metadata, { deadline: Date.now() + timeoutMs }, (error, response) => {
          clearTimeout(patience);
          if (error) reject(adminError(error, address));
          else resolve(response);
        });
      });
    },
    close() {
      client.close();
      tls?.close();
    },
  };
}

function adminError(error: ServiceError, address: string): AdminError {
  const code = error.metadata?.get(CODE_KEY)[0]?.toString();
  if (code) return new AdminError(code, error.details, { cause: error });
  return new AdminError('unreachable', `The control plane at ${address} does not answer: ${error.details}`, {
    cause: error,
  });
}
