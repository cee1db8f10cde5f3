import type { RenderStage } from '@semblance/engine-api/engine';

/** Wall-clock time of the stages of one render; repeated runs of a stage are added up. */
export class StageTimes {
  readonly #milliseconds = new Map<string, number>();

  /** Runs a part of a stage and adds its time, also when it fails. */
  readonly timed = async <T>(name: string, work: () => T | Promise<T>): Promise<T> => {
    const start = performance.now();
    try {
      return await work();
    } finally {
      this.#milliseconds.set(name, (this.#milliseconds.get(name) ?? 0) + performance.now() - start);
    }
  };

  /** The stages in the order in which they first ended. */
  get stages(): RenderStage[] {
    return [...this.#milliseconds].map(([name, milliseconds]) => ({ name, milliseconds }));
  }
}
