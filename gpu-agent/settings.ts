import { availableParallelism, hostname, tmpdir, totalmem } from 'node:os';
import { dirname, isAbsolute, join } from 'node:path';
import { baseShape, ConfigError, kubeShape, listenAddress, loadConfig } from '@semblance/common/config';
import { ownerOptionsSetting } from '@semblance/common/owner-options';
import { builtinShape } from '@semblance/engine-builtin/settings';
import { deviceFiles, onnxShape } from '@semblance/engine-onnx/settings';
import { z } from 'zod';
import { contentCheckSettings, contentCheckShape } from './content-check/settings.ts';
import { ENGINE_NICE } from './engines/host/engine-process.ts';
import { ENGINE_NAMES } from './engines/registry.ts';
import { LIVE_SWAP_MIB, liveSettings, liveShape } from './live/settings.ts';
import { leaseTimesOf } from './registration/registration.ts';
import { isSocketPath } from './socket-path.ts';
import { whole } from './whole-number.ts';

/** The agent's settings; common/config has the shared ones. */
export const agentShape = {
  ...baseShape,
  ...kubeShape,
  ...builtinShape,
  ...onnxShape,
  ...contentCheckShape,
  ...liveShape,
  SEMBLANCE_AGENT_LISTEN: listenAddress.default({ host: '127.0.0.1', port: 0 }),
  /** host:port at which the operator and the gateway reach the agent. */
  SEMBLANCE_AGENT_ADVERTISE: z
    .string()
    .max(261)
    .regex(/^[^\s/]+:\d{1,5}$/, 'must be host:port')
    .optional(),
  /** Name of the GpuAgent and of its Lease; one process at a time may use it. */
  SEMBLANCE_AGENT_NAME: z
    .string()
    .regex(/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/, 'must be a name of lower case letters, digits and -')
    .default('agent'),
  SEMBLANCE_AGENT_NODE: z.string().max(253).optional(),
  /** Length of the agent's Lease, in seconds. After that time, the work of a dead agent begins elsewhere. */
  SEMBLANCE_AGENT_LEASE_SECONDS: whole(8, 120).default(8),
  SEMBLANCE_AGENT_SLOTS: whole(1, 1024).optional(),
  /** Memory for all renders, in MiB, by which the operator places them. */
  SEMBLANCE_AGENT_MEMORY_MIB: whole(1, 16_777_216).optional(),
  /** Memory on the cards, in MiB, beyond which the process of the engine `onnx` ends between renders. */
  SEMBLANCE_ONNX_VRAM_CEILING_MIB: whole(1, 16_777_216).optional(),
  /** Nice value of engine processes and of decoders beside them; the agent and its live sessions have 0. */
  SEMBLANCE_AGENT_RENDER_NICE: whole(0, 19).default(ENGINE_NICE),
  /** Whether decoders may run with fewer walls than all; `findIsolation` reads it in each process. */
  SEMBLANCE_MEDIA_ISOLATION: z.enum(['required', 'preferred']).default('preferred'),
  SEMBLANCE_AGENT_WORK_DIR: z.string().refine(isAbsolute, 'must be an absolute path').optional(),
  /** Seconds for running work to finish after the process is asked to end. */
  SEMBLANCE_AGENT_DRAIN_SECONDS: whole(0, 86_400).default(25),
  /**
   * Seconds after which a drain ends live sessions, at most those of the whole drain. Their clients are warned at
   * once.
   */
  SEMBLANCE_AGENT_LIVE_DRAIN_SECONDS: whole(0, 86_400).default(30),
  SEMBLANCE_AGENT_ENGINES: z
    .string()
    .default('builtin')
    .transform((text) => text.split(',').map((name) => name.trim()))
    .refine((names) => names.every((name) => ENGINE_NAMES.includes(name)), {
      message: `must be a list of: ${ENGINE_NAMES.join(', ')}`,
    })
    .refine((names) => new Set(names).size === names.length, 'names an engine twice'),
  /** What the owner sets of the options of engines, and which of them callers may give, by capability. */
  SEMBLANCE_ENGINE_OPTIONS: ownerOptionsSetting,
  /** Unix sockets of engines beside the agent. They are preferred to SEMBLANCE_AGENT_ENGINES. */
  SEMBLANCE_SIDECAR_SOCKETS: z
    .string()
    .default('')
    .transform((text) => text.split(',').flatMap((path) => path.trim() || []))
    .refine((paths) => paths.every(isSocketPath), 'must be absolute paths of at most 100 bytes')
    .refine((paths) => new Set(paths.map(dirname)).size === paths.length, {
      message: 'needs a directory of its own for each socket',
    }),
  /** PEM files: the certificate that signs outputs with those of its issuers, and its private key. */
  SEMBLANCE_PROVENANCE_CERTIFICATE: z.string().refine(isAbsolute, 'must be an absolute path').optional(),
  SEMBLANCE_PROVENANCE_KEY: z.string().refine(isAbsolute, 'must be an absolute path').optional(),
  /** Pod of the process; the GpuAgent is deleted together with it. */
  SEMBLANCE_POD_NAME: z.string().max(253).optional(),
  SEMBLANCE_POD_UID: z.string().max(64).optional(),
};

/**
 * Reads the settings of the agent from the environment.
 * @throws ConfigError naming every fault
 */
export function loadSettings(env: NodeJS.ProcessEnv = process.env) {
  const config = loadConfig(agentShape, env);
  const listen = config.SEMBLANCE_AGENT_LISTEN;
  if (['0.0.0.0', '::', '*'].includes(listen.host) && !config.SEMBLANCE_AGENT_ADVERTISE) {
    throw new ConfigError(
      'The environment is not usable:\n  SEMBLANCE_AGENT_ADVERTISE: must say where others reach the agent when it listens on every address',
    );
  }
  if (config.SEMBLANCE_AGENT_ENGINES.includes('onnx') && !config.SEMBLANCE_MODEL_DIR) {
    throw new ConfigError(
      'The environment is not usable:\n  SEMBLANCE_MODEL_DIR: must say where the models are when SEMBLANCE_AGENT_ENGINES names onnx',
    );
  }
  const certificateFile = config.SEMBLANCE_PROVENANCE_CERTIFICATE;
  const keyFile = config.SEMBLANCE_PROVENANCE_KEY;
  if ((certificateFile === undefined) !== (keyFile === undefined)) {
    throw new ConfigError(
      'The environment is not usable:\n  SEMBLANCE_PROVENANCE_CERTIFICATE and SEMBLANCE_PROVENANCE_KEY: are needed both, or neither',
    );
  }
  const machine = { cores: availableParallelism(), memoryMib: memoryMib() };
  const live = liveSettings(config, machine);
  assertOwnFolders([...config.SEMBLANCE_SIDECAR_SOCKETS, live.voiceSidecar, live.videoSidecar]);
  const name = config.SEMBLANCE_AGENT_NAME;
  const pod =
    config.SEMBLANCE_POD_NAME && config.SEMBLANCE_POD_UID
      ? { name: config.SEMBLANCE_POD_NAME, uid: config.SEMBLANCE_POD_UID }
      : undefined;
  return {
    logLevel: config.SEMBLANCE_LOG_LEVEL,
    healthListen: config.SEMBLANCE_HEALTH_LISTEN,
    kubeconfig: config.KUBECONFIG,
    namespace: config.SEMBLANCE_NAMESPACE,
    internalToken: config.SEMBLANCE_INTERNAL_TOKEN,
    tlsDir: config.SEMBLANCE_TLS_DIR,
    listen,
    advertise: config.SEMBLANCE_AGENT_ADVERTISE,
    name,
    node: config.SEMBLANCE_AGENT_NODE ?? hostname(),
    leaseTimes: leaseTimesOf(config.SEMBLANCE_AGENT_LEASE_SECONDS),
    slots: config.SEMBLANCE_AGENT_SLOTS ?? machine.cores,
    memoryMib:
      config.SEMBLANCE_AGENT_MEMORY_MIB ??
      forRenders(machine.memoryMib, live.videoSidecar ? 1 : live.videoSlots),
    renderNice: config.SEMBLANCE_AGENT_RENDER_NICE,
    workDir: config.SEMBLANCE_AGENT_WORK_DIR ?? join(tmpdir(), `semblance-${name}`),
    drainMs: config.SEMBLANCE_AGENT_DRAIN_SECONDS * 1000,
    liveDrainMs:
      Math.min(config.SEMBLANCE_AGENT_LIVE_DRAIN_SECONDS, config.SEMBLANCE_AGENT_DRAIN_SECONDS) * 1000,
    engines: config.SEMBLANCE_AGENT_ENGINES,
    engineSettings: {
      builtin: { likeness: String(config.SEMBLANCE_SWAP_LIKENESS) },
      onnx: {
        ...(config.SEMBLANCE_MODEL_DIR ? { modelDir: config.SEMBLANCE_MODEL_DIR } : {}),
        providers: config.SEMBLANCE_ONNX_PROVIDERS,
        devices: config.SEMBLANCE_ONNX_DEVICES,
      },
    },
    /** Device files that the engine `onnx` needs. */
    deviceFiles: deviceFiles(config.SEMBLANCE_ONNX_DEVICE_FILES, config.SEMBLANCE_ONNX_PROVIDERS),
    vramCeilingMib: config.SEMBLANCE_ONNX_VRAM_CEILING_MIB,
    /** Whether an engine of this agent's own processes uses a GPU. */
    usesCards:
      config.SEMBLANCE_AGENT_ENGINES.includes('onnx') && /cuda/.test(config.SEMBLANCE_ONNX_PROVIDERS),
    ownerOptions: config.SEMBLANCE_ENGINE_OPTIONS,
    sidecars: config.SEMBLANCE_SIDECAR_SOCKETS,
    contentCheck: contentCheckSettings(config),
    signer: certificateFile && keyFile ? { certificateFile, keyFile } : undefined,
    live,
    pod,
  };
}

/** A client empties its folder beside the socket. @throws ConfigError when two sockets are in one directory */
function assertOwnFolders(sockets: readonly (string | undefined)[]): void {
  const folders = sockets.flatMap((socket) => (socket === undefined ? [] : dirname(socket)));
  if (new Set(folders).size === folders.length) return;
  throw new ConfigError(
    'The environment is not usable:\n  SEMBLANCE_SIDECAR_SOCKETS, SEMBLANCE_LIVE_VOICE_SIDECAR and SEMBLANCE_LIVE_VIDEO_SIDECAR: need a directory of its own for each socket',
  );
}

export type AgentSettings = ReturnType<typeof loadSettings>;

/** Returns the memory limit of this container, or the memory of the machine. */
function memoryMib(): number {
  const limit = process.constrainedMemory();
  return Math.floor((limit > 0 ? Math.min(limit, totalmem()) : totalmem()) / 2 ** 20);
}

/**
 * Returns the memory that live swaps leave for renders. One live swap counts as part of what every agent needs
 * beside its renders.
 */
function forRenders(memoryMib: number, videoSlots: number): number {
  return Math.max(1, memoryMib - LIVE_SWAP_MIB * Math.max(0, videoSlots - 1));
}
