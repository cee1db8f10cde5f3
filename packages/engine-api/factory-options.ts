/** Options of every engine's factory. */
export interface FactoryOptions {
  /** Number of worker threads that one process of the engine may keep busy. */
  readonly threads: number;
  /** `settings` of its EngineSource. */
  readonly settings?: Readonly<Record<string, string>>;
}
