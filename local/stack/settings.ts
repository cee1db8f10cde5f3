import { createHash, randomBytes } from 'node:crypto';
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { availableParallelism, hostname } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { choosePorts, isFree } from '../process/ports.ts';
import { stateFolder } from './handle.ts';

export class StackSettingsError extends Error {
  override name = 'StackSettingsError';
  readonly code = 'invalid_stack_settings';
  readonly retryable = false;
}

const PORTS = [
  'gateway',
  'control-plane',
  'gpu-agent',
  'operator',
  'postgres',
  'nats',
  'kube-apiserver',
  'control-plane-health',
  'operator-health',
  'gateway-health',
  'gpu-agent-health',
] as const;
export type PortName = (typeof PORTS)[number];

/** Places and addresses of everything in one stack, decided once per start. */
export type StackSettings = {
  stateDir: string;
  ports: Record<PortName, number>;
  /** `host:port` of the listeners that the user can set. */
  listen: { gateway: string; control: string; operator: string; agent: string };
  /** Origins of the gateway: `publicUrl` as clients see it, `internalUrl` as this machine reaches it. */
  publicUrl: string;
  internalUrl: string;
  namespace: string;
  adminToken: string;
  internalToken: string;
  signingKey: string;
  objectsUrl: string;
  agentName: string;
  agentSlots: string;
  /** Whether the services use mutual TLS, with certificates made at each start. */
  tls: boolean;
  /** Servers of the user, which the stack then does not start. */
  external: { kubeconfig?: string; postgresUrl?: string; natsUrl?: string };
};

/** Reads the environment and the state folder. Ports and secrets are chosen at the first start and kept there. */
export async function stackSettings(env: NodeJS.ProcessEnv): Promise<StackSettings> {
  const stateDir = stateFolder(env);
  mkdirSync(stateDir, { recursive: true });
  const portsFile = join(stateDir, 'ports.json');
  const ports = await choosePorts(PORTS, readJson(portsFile));
  writeJson(portsFile, ports);
  const secrets = secretsOf(join(stateDir, 'secrets.json'));

  const listen = {
    gateway: env.SEMBLANCE_GATEWAY_LISTEN || `127.0.0.1:${ports.gateway}`,
    control: env.SEMBLANCE_CONTROL_LISTEN || `127.0.0.1:${ports['control-plane']}`,
    operator: env.SEMBLANCE_OPERATOR_LISTEN || `127.0.0.1:${ports.operator}`,
    agent: env.SEMBLANCE_AGENT_LISTEN || `127.0.0.1:${ports['gpu-agent']}`,
  };
  await refuseTaken('SEMBLANCE_GATEWAY_LISTEN', env);
  await refuseTaken('SEMBLANCE_CONTROL_LISTEN', env);
  await refuseTaken('SEMBLANCE_OPERATOR_LISTEN', env);
  await refuseTaken('SEMBLANCE_AGENT_LISTEN', env);

  const internalUrl = `http://${reachable(listen.gateway)}`;
  const kubeconfig = env.KUBECONFIG || undefined;
  return {
    stateDir,
    ports,
    listen,
    publicUrl: env.SEMBLANCE_PUBLIC_URL || internalUrl,
    internalUrl: env.SEMBLANCE_OBJECTS_INTERNAL_URL || internalUrl,
    namespace: env.SEMBLANCE_NAMESPACE || 'semblance',
    adminToken: env.SEMBLANCE_ADMIN_TOKEN || secrets.adminToken,
    internalToken: env.SEMBLANCE_INTERNAL_TOKEN || secrets.internalToken,
    signingKey: env.SEMBLANCE_OBJECTS_SIGNING_KEY || secrets.signingKey,
    objectsUrl: env.SEMBLANCE_OBJECTS_URL || pathToFileURL(join(stateDir, 'objects')).href,
    // The stack's own cluster has one local agent. In a shared cluster the agents of several stacks need different
    // names.
    agentName:
      env.SEMBLANCE_AGENT_NAME || (kubeconfig ? `local-${shortHash(hostname() + stateDir)}` : 'local'),
    agentSlots: env.SEMBLANCE_AGENT_SLOTS || String(Math.max(1, Math.floor(availableParallelism() / 2))),
    tls: tlsOf(env),
    external: {
      kubeconfig,
      postgresUrl: env.SEMBLANCE_POSTGRES_URL || undefined,
      natsUrl: env.SEMBLANCE_NATS_URL || undefined,
    },
  };
}

function tlsOf({ SEMBLANCE_TLS: value }: NodeJS.ProcessEnv): boolean {
  if (value && value !== 'on' && value !== 'off')
    throw new StackSettingsError(`SEMBLANCE_TLS is "${value}", which is neither on nor off`);
  return value === 'on';
}

/** Returns the `host:port` to connect to for a `host:port` to listen on. */
export function reachable(listen: string): string {
  const at = listen.lastIndexOf(':');
  const host = listen.slice(0, at).replace(/^\[|\]$/g, '');
  const port = listen.slice(at + 1);
  if (host === '0.0.0.0' || host === '::' || host === '') return `127.0.0.1:${port}`;
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}

async function refuseTaken(name: string, env: NodeJS.ProcessEnv): Promise<void> {
  const value = env[name];
  if (!value) return;
  const port = Number(/:(\d{1,5})$/.exec(value)?.[1]);
  if (!Number.isInteger(port) || port < 1 || port > 65_535) {
    throw new StackSettingsError(`${name} is "${value}", which is not host:port with a port from 1 to 65535`);
  }
  if (!(await isFree(port))) {
    throw new StackSettingsError(`${name} is ${value}, and something listens on port ${port} already`);
  }
}

type Secrets = { adminToken: string; internalToken: string; signingKey: string };

function secretsOf(file: string): Secrets {
  const present = readJson<Secrets>(file);
  if (present?.adminToken && present.internalToken && present.signingKey) return present as Secrets;
  const secrets = {
    adminToken: present?.adminToken || randomBytes(32).toString('base64url'),
    internalToken: randomBytes(32).toString('base64url'),
    signingKey: present?.signingKey || randomBytes(32).toString('hex'),
  };
  writeJson(file, secrets);
  return secrets;
}

/** Reads a state file; undefined when it does not exist. @throws StackSettingsError when it is not JSON */
export function readJson<T>(file: string): Partial<T> | undefined {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
  try {
    return JSON.parse(text) as Partial<T>;
  } catch (cause) {
    throw new StackSettingsError(`${file} is damaged; remove it to have it made anew`, { cause });
  }
}

export function writeJson(file: string, value: unknown): void {
  writeFileSync(`${file}.unfinished`, `${JSON.stringify(value, undefined, 2)}\n`, {
    mode: 0o600,
    flush: true,
  });
  renameSync(`${file}.unfinished`, file);
}

function shortHash(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 8);
}
