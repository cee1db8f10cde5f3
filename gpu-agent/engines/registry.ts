/** Holds where an engine's code is. It is imported in the engine's own process only, never in the agent's. */
export interface EngineSource {
  readonly name: string;
  /** file: URL of the module. */
  readonly module: string;
  /** Exported function `(options: EngineOptions) => Engine | Promise<Engine>`. */
  readonly factory: string;
  /** States what this engine alone is told. */
  readonly settings?: Readonly<Record<string, string>>;
  /**
   * One process holds all renders of the agent, as far as the engine's own `concurrency` goes, and nothing is offered
   * while it is down: for a process that only speaks to an engine elsewhere.
   */
  readonly remote?: boolean;
  /** One process holds all renders of the agent: for an engine whose models are too large to be loaded for each. */
  readonly shared?: boolean;
  /** Device files without which it cannot run: while one is not there, its process is not started, or ended. */
  readonly devices?: readonly string[];
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

/** The engine behind a Unix socket; the first is called `sidecar`, the next `sidecar-2`. */
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
 * @param settings what engines are told, by engine
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
