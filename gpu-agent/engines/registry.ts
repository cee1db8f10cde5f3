/** Where an engine's code is. It is imported in the engine's own process only, never in the agent's. */
export interface EngineSource {
  readonly name: string;
  /** file: URL of the module. */
  readonly module: string;
  /** Exported function `(options: EngineOptions) => Engine | Promise<Engine>`. */
  readonly factory: string;
}

/** What every engine's factory is given. */
export interface EngineOptions {
  /** Worker threads one process of the engine may keep busy. */
  readonly threads: number;
  readonly cacheDir?: string;
}

const SOURCES: readonly EngineSource[] = [
  {
    name: 'builtin',
    module: new URL('./builtin/index.ts', import.meta.url).href,
    factory: 'createBuiltinEngine',
  },
];

export const ENGINE_NAMES: readonly string[] = SOURCES.map(({ name }) => name);

/** @throws Error for a name not in ENGINE_NAMES */
export function engineSource(name: string): EngineSource {
  const source = SOURCES.find((candidate) => candidate.name === name);
  if (!source) throw new Error(`there is no engine called ${name}`);
  return source;
}
