/** The code of an engine. Only the engine's own process imports it, never the agent. */
export interface EngineSource {
  readonly name: string;
  /** file: URL of the module. */
  readonly module: string;
  /** Exported function `(options: FactoryOptions) => Engine | Promise<Engine>`. */
  readonly factory: string;
  /** Settings for this engine only. */
  readonly settings?: Readonly<Record<string, string>>;
  /**
   * Whether the process is only a client of an engine elsewhere. One process then holds all renders of the agent,
   * up to the engine's own `concurrency`, and nothing is offered while it is down.
   */
  readonly remote?: boolean;
  /** Whether one process holds all renders of the agent, because the models are too large to be loaded for each. */
  readonly shared?: boolean;
  /** Device files that the engine needs. While one is missing, the process is ended or not started. */
  readonly devices?: readonly string[];
  /** Whether its processes use a GPU, so that their memory there is told. */
  readonly usesCards?: boolean;
  /** Memory on the cards, in MiB, beyond which a process of the engine ends between renders. */
  readonly vramCeilingMib?: number;
}

const SOURCES: readonly EngineSource[] = [
  {
    name: 'builtin',
    module: import.meta.resolve('@semblance/engine-builtin'),
    factory: 'createBuiltinEngine',
  },
  {
    name: 'onnx',
    module: import.meta.resolve('@semblance/engine-onnx'),
    factory: 'createOnnxEngine',
    shared: true,
  },
];

export const ENGINE_NAMES: readonly string[] = SOURCES.map(({ name }) => name);

/** Returns the engine behind a Unix socket; the first is called `sidecar`, the next `sidecar-2`. */
export function sidecarSource(socket: string, index: number): EngineSource {
  return {
    name: index === 0 ? 'sidecar' : `sidecar-${index + 1}`,
    module: import.meta.resolve('@semblance/engine-sidecar'),
    factory: 'createSidecarEngine',
    settings: { socket },
    remote: true,
  };
}

/**
 * @param settings settings of the engines, by engine
 * @throws Error for a name not in ENGINE_NAMES
 */
export function engineSource(
  name: string,
  settings: Readonly<Record<string, EngineSource['settings']>> = {},
): EngineSource {
  const source = SOURCES.find((candidate) => candidate.name === name);
  if (!source) throw new Error(`there is no engine called ${name}`);
  return settings[name] ? { ...source, settings: settings[name] } : source;
}
