/** Holds what every engine's factory is given. */
export interface EngineOptions {
  /** Worker threads one process of the engine may keep busy. */
  readonly threads: number;
  /** `settings` of its EngineSource. */
  readonly settings?: Readonly<Record<string, string>>;
}
