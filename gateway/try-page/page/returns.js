/** Records which sent pictures came back, after how long, and how many the service dropped. */
import { NUMBERS } from './frame-number.js';

export class Returns {
  /** When each picture that has not come back was sent, by its number, oldest first. @type {Map<number, number>} */
  #sentAt = new Map();
  /** Pictures that came back unidentified since the last identified one. */
  #unknown = 0;

  /** @param {number} number @param {number} at */
  sent(number, at) {
    this.#sentAt.set(number, at);
    if (this.#sentAt.size >= NUMBERS / 2)
      this.#sentAt.delete(/** @type {number} */ (this.#sentAt.keys().next().value));
  }

  /**
   * @param {number | undefined} number undefined when it was not read, or could not be
   * @param {number} at
   * @returns {{ delay: number, lost: number } | undefined} its delay, and the number of dropped pictures before it
   */
  back(number, at) {
    const sent = number === undefined ? undefined : this.#sentAt.get(number);
    if (sent === undefined) {
      this.#unknown++;
      return undefined;
    }
    // Pictures come back in order, so those sent before this one will not come any more.
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
