import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { KubeConfig } from '@kubernetes/client-node';
import { describeError } from '@semblance/common/errors';
import { createGuard, type Guard } from '@semblance/common/process/guard';
import { applyCrds } from '../crds.ts';
import { collectGarbage } from '../garbage-collector.ts';
import { kubeServices } from '../kube.ts';
import { natsService, natsUrl } from '../nats.ts';
import { createDatabase, postgresService, postgresUrl } from '../postgres.ts';
import { endLeftovers } from '../process/children-record.ts';
import { holderOf, tryLock } from '../process/lock.ts';
import { releasePorts } from '../process/ports.ts';
import type { ServiceSpec } from '../process/service.ts';
import { createSupervisor, type SupervisorEvent } from '../supervisor.ts';
import type { Report } from '../toolchain/progress.ts';
import { resolveTools } from '../toolchain/toolchain.ts';
import { localAccount } from './account.ts';
import {
  controlFile,
  handleFile,
  lockFile,
  removeHandle,
  type StackHandle,
  stateFolder,
  writeHandle,
} from './handle.ts';
import { serviceCertificates } from './service-certificates.ts';
import { type Addresses, ownServices } from './services.ts';
import { reachable, type StackSettings, StackSettingsError, stackSettings, writeJson } from './settings.ts';

const DATABASE = 'semblance';

/** Another stack runs in the same folder. */
export class StackRunningError extends Error {
  override name = 'StackRunningError';
  readonly code = 'stack_running';
  readonly retryable = false;
  readonly pid: number | undefined;
  constructor(stateDir: string, pid: number | undefined) {
    super(
      `a stack runs in ${stateDir} already${pid ? ` (pid ${pid})` : ''}; ` +
        'set SEMBLANCE_STATE_DIR to another folder to run a second one beside it',
    );
    this.pid = pid;
  }
}

export type Stack = {
  handle: StackHandle;
  settings: StackSettings;
  /** Ends a service in order and starts it again. */
  restart(service: string, why: string): void;
  /** Ends every process of the stack, in reverse order of their start. May be called more than once. */
  stop(): Promise<void>;
};

export type StackOptions = {
  env: NodeJS.ProcessEnv;
  /** Cancels the start. After the start, `stop` ends the stack. */
  signal: AbortSignal;
  onEvent?: (event: SupervisorEvent) => void;
  /** Called with the progress of the tool builds, which happen once. */
  report?: Report;
  /** Called with other messages for a person. */
  say?: (line: string) => void;
};

/**
 * Starts all of Semblance on this machine and resolves when a job can be submitted. From then until the stack ends,
 * `stack.json` exists and names the running processes.
 *
 * @throws StackRunningError, StackSettingsError, ToolchainError, ServiceStartError; nothing is left running then
 */
export async function startStack(options: StackOptions): Promise<Stack> {
  const { env, signal } = options;
  const stateDir = stateFolder(env);
  const lock = tryLock(lockFile(stateDir));
  if (!lock) throw new StackRunningError(stateDir, holderOf(lockFile(stateDir)));
  let guard: Guard | undefined;
  let settings: StackSettings | undefined;
  const release = async () => {
    await guard?.close();
    if (settings) await releasePorts(Object.values(settings.ports));
    lock.release();
  };
  try {
    await removeHandle(stateDir);
    const ended = await endLeftovers(join(stateDir, 'children.json'), 5_000);
    if (ended.length > 0) options.say?.(`Ended what an earlier stack left running: pid ${ended.join(', ')}.`);
    guard = createGuard();
    await guard.removeOnDeath(handleFile(stateDir));
    settings = await stackSettings(env);
    return await run(options, settings, guard, release);
  } catch (error) {
    await release();
    signal.throwIfAborted();
    throw error;
  }
}

async function run(
  options: StackOptions,
  settings: StackSettings,
  guard: Guard,
  release: () => Promise<void>,
): Promise<Stack> {
  const { stateDir } = settings;
  const { signal, onEvent } = options;
  const { services, addresses, cleanUp } = await infrastructure(options, settings, guard);
  signal.throwIfAborted();

  let handle: StackHandle | undefined;
  // Restarts may follow closely, so writes are queued: the file must end with the latest restart.
  let writing = Promise.resolve();
  const rewrite = () => {
    if (!handle) return;
    const next = { ...handle, services: supervisor.pids() };
    Object.assign(handle, next);
    writing = writing
      .then(() => writeHandle(stateDir, next))
      .catch((error: unknown) => {
        options.say?.(
          `Cannot write ${handleFile(stateDir)}: ${error instanceof Error ? error.message : error}`,
        );
      });
  };
  const certificates = settings.tls ? await serviceCertificates(join(stateDir, 'tls')) : undefined;
  const supervisor = createSupervisor({
    services: [...services, ...ownServices(settings, addresses, certificates)],
    guard,
    logDir: join(stateDir, 'logs'),
    childrenFile: join(stateDir, 'children.json'),
    onEvent: (event) => {
      if (event.type === 'started') rewrite();
      onEvent?.(event);
    },
  });
  const ending = new AbortController();
  let collecting: Promise<void> | undefined;
  let stopped: Promise<void> | undefined;
  const stop = () => {
    stopped ??= (async () => {
      handle = undefined;
      ending.abort();
      await collecting;
      await writing;
      await removeHandle(stateDir);
      await supervisor.stop();
      await cleanUp();
    })();
    return stopped;
  };

  const abort = () => void stop();
  signal.addEventListener('abort', abort, { once: true });
  try {
    await supervisor.start();
    if (!settings.external.kubeconfig)
      collecting = collectGarbage({
        kubeconfig: addresses.kubeconfig,
        namespace: settings.namespace,
        signal: ending.signal,
        onFault: (error) =>
          options.say?.(`Cannot collect garbage in the Kubernetes API: ${describeError(error)}`),
      });
    const controlAddress = reachable(settings.listen.control);
    const account = await localAccount({
      stateDir,
      controlAddress,
      adminToken: settings.adminToken,
      signal,
      tlsDir: certificates?.['control-plane'],
    });
    signal.throwIfAborted();
    writeJson(controlFile(stateDir), {
      control_address: controlAddress,
      tls_dir: certificates?.['control-plane'],
    });
    handle = {
      base_url: `${settings.publicUrl}/api/v1`,
      api_key: account.api_key,
      account_id: account.account_id,
      admin_token: settings.adminToken,
      namespace: settings.namespace,
      kubeconfig: addresses.kubeconfig,
      postgres_url: addresses.postgresUrl(),
      nats_url: await addresses.natsUrl(),
      services: supervisor.pids(),
    };
    rewrite();
    await writing;
    return {
      handle,
      settings,
      restart: supervisor.restart,
      async stop() {
        await stop();
        await release();
      },
    };
  } catch (error) {
    await stop();
    throw error;
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

/**
 * Prepares PostgreSQL, NATS and the Kubernetes API: the user's servers where given, otherwise services of the
 * stack.
 */
async function infrastructure(
  options: StackOptions,
  settings: StackSettings,
  guard: Guard,
): Promise<{ services: ServiceSpec[]; addresses: Addresses; cleanUp: () => Promise<void> }> {
  const { env, report, signal, say = () => {} } = options;
  const { stateDir, ports, namespace, external } = settings;
  const services: ServiceSpec[] = [];
  const tools = await resolveTools(
    [
      ...(external.natsUrl ? [] : (['nats-server'] as const)),
      ...(external.kubeconfig ? [] : (['etcd', 'kube-apiserver', 'kubectl'] as const)),
    ],
    { env, report, signal },
  );

  const postgresDir = join(stateDir, 'postgres');
  if (!external.postgresUrl) {
    services.push({
      ...postgresService({ dir: postgresDir, port: ports.postgres, guard }),
      async whenReady() {
        await createDatabase(postgresUrl(postgresDir, ports.postgres, 'postgres'), DATABASE);
      },
    });
  }
  const natsDir = join(stateDir, 'nats');
  if (!external.natsUrl)
    services.push(natsService({ binary: tools['nats-server'], dir: natsDir, port: ports.nats }));

  let cleanUp = async () => {};
  let kubeconfig = external.kubeconfig;
  if (kubeconfig) {
    kubeconfig = await usersCluster(kubeconfig, stateDir, namespace, say);
    await applyCrds({ kubeconfig, namespace, signal });
  } else {
    const kube = kubeServices({
      binaries: tools,
      dir: join(stateDir, 'kube'),
      port: ports['kube-apiserver'],
      namespace,
      guard,
    });
    kubeconfig = kube.kubeconfig;
    cleanUp = kube.cleanUp;
    for (const spec of kube.services) {
      const isApi = spec.name === 'kube-apiserver';
      const whenReady = (signal: AbortSignal) =>
        applyCrds({ kubeconfig: kube.kubeconfig, namespace, signal });
      services.push(isApi ? { ...spec, whenReady } : spec);
    }
  }
  const addresses: Addresses = {
    postgresUrl: () => external.postgresUrl ?? postgresUrl(postgresDir, ports.postgres, DATABASE),
    natsUrl: async () => external.natsUrl ?? natsUrl(natsDir, ports.nats),
    kubeconfig,
  };
  return { services, addresses, cleanUp };
}

/**
 * Announces which cluster KUBECONFIG selects, because resources will be created in it. Returns one kubeconfig file,
 * merged if KUBECONFIG lists several.
 */
async function usersCluster(
  value: string,
  stateDir: string,
  namespace: string,
  say: (line: string) => void,
): Promise<string> {
  const files = value.split(delimiter).filter(Boolean);
  const missing = files.filter((file) => !existsSync(file));
  if (missing.length === files.length)
    throw new StackSettingsError(`KUBECONFIG is ${value}, which does not exist`);
  const config = new KubeConfig();
  config.loadFromDefault();
  const server = config.getCurrentCluster()?.server;
  if (!server)
    throw new StackSettingsError(`KUBECONFIG (${value}) selects no cluster: set its current-context`);
  say(
    `Using the cluster of KUBECONFIG: context ${config.getCurrentContext()}, ${server}, namespace ${namespace}.`,
  );
  const only = files.length === 1 ? files[0] : undefined;
  if (only) return only;
  const { mkdir, writeFile } = await import('node:fs/promises');
  await mkdir(join(stateDir, 'kube'), { recursive: true, mode: 0o700 });
  const merged = join(stateDir, 'kube', 'kubeconfig.merged');
  await writeFile(merged, config.exportConfig(), { mode: 0o600 });
  return merged;
}
