import type { RenderStage } from '@semblance/engine-api/engine';

/** Wall-clock time of the stages of one render; what a stage takes in several goes is added up. */
export class StageTimes {
  readonly #milliseconds = new Map<string, number>();

  /** Runs a piece of a stage; what it took counts also when it fails. */
  readonly timed = async <T>(name: string, work: () => T | Promise<T>): Promise<T> => {
    const start = performance.now();
    try {
      return await work();
    } finally {
      this.#milliseconds.set(name, (this.#milliseconds.get(name) ?? 0) + performance.now() - start);
    }
  };

  /** In the order in which they first ended. */
  get stages(): RenderStage[] {
    return [...this.#milliseconds].map(([name, milliseconds]) => ({ name, milliseconds }));
  }
}
