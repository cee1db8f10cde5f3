/** Which of the pictures sent came back, after how long, and how many the service left out. */
import { NUMBERS } from './frame-number.js';

export class Returns {
  /** When each picture that has not come back was sent, by its number, oldest first. @type {Map<number, number>} */
  #sentAt = new Map();
  /** Those that came back since the last one that was told apart, and were not themselves. */
  #unknown = 0;

  /** @param {number} number @param {number} at */
  sent(number, at) {
    this.#sentAt.set(number, at);
    if (this.#sentAt.size >= NUMBERS / 2)
      this.#sentAt.delete(/** @type {number} */ (this.#sentAt.keys().next().value));
  }

  /**
   * @param {number | undefined} number undefined: it was not read, or could not be
   * @param {number} at
   * @returns {{ delay: number, lost: number } | undefined} how long it took, and how many before it were left out
   */
  back(number, at) {
    const sent = number === undefined ? undefined : this.#sentAt.get(number);
    if (sent === undefined) {
      this.#unknown++;
      return undefined;
    }
    // Pictures come back in order: those sent before this one will not come any more.
    let before = 0;
    for (const earlier of this.#sentAt.keys()) {
      this.#sentAt.delete(earlier);
      if (earlier === number) break;
      before++;
    }
    const lost = Math.max(0, before - this.#unknown);
    this.#unknown = 0;
    return { delay: at - sent, lost };
  }
}
