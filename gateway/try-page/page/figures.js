/** Delays of the last messages and counters, shown a few times a second. */

const LATEST = 500;

/** @param {readonly number[]} sorted @param {number} share from 0 to 1 */
function quantile(sorted, share) {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
}

export class Figures {
  sent = 0;
  received = 0;
  /**
   * Voice: times that nothing could be played or some sound was dropped. Pictures: those sent that did not come
   * back.
   */
  lost = 0;
  /** Pictures that came back and were not drawn, because newer ones had arrived or they could not be read. */
  unshown = 0;
  /** @type {string | undefined} */
  waiting;
  /** @type {number[]} */
  #delays = [];
  /** @type {(id: string, text: string) => void} */
  #show;
  /** @type {ReturnType<typeof setInterval>} */
  #timer;

  /** @param {(id: string, text: string) => void} show writes a figure to its element */
  constructor(show) {
    this.#show = show;
    this.#timer = setInterval(() => this.render(), 250);
    this.render();
  }

  /** @param {number} ms from sending a message to its return */
  delay(ms) {
    this.#delays.push(ms);
    if (this.#delays.length > LATEST) this.#delays.shift();
  }

  render() {
    const sorted = this.#delays.toSorted((a, b) => a - b);
    for (const [id, share] of /** @type {const} */ ([
      ['delay-p50', 0.5],
      ['delay-p95', 0.95],
    ])) {
      const ms = quantile(sorted, share);
      this.#show(id, ms === undefined ? '–' : `${ms.toFixed(1)} ms`);
    }
    this.#show('sent', String(this.sent));
    this.#show('received', String(this.received));
    this.#show('lost', String(this.lost));
    this.#show('unshown', String(this.unshown));
    this.#show('waiting', this.waiting ?? '–');
  }

  stop() {
    clearInterval(this.#timer);
    this.render();
  }
}
