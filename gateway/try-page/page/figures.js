/** Delays of the last messages, and what is counted; all of it shown a few times a second. */

const LATEST = 500;

/** @param {readonly number[]} sorted @param {number} share from 0 to 1 */
export function quantile(sorted, share) {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
}

export class Figures {
  sent = 0;
  received = 0;
  /** Voice: times that nothing was there to be played, or some was left out. Pictures: those sent that did not come back. */
  lost = 0;
  /** Pictures that came back and were not drawn: newer ones were there, or they could not be read. */
  unshown = 0;
  /** @type {string | undefined} */
  waiting;
  /** @type {number[]} */
  #delays = [];
  /** @type {(id: string, text: string) => void} */
  #show;
  /** @type {ReturnType<typeof setInterval>} */
  #timer;

  /** @param {(id: string, text: string) => void} show writes a figure where it is shown */
  constructor(show) {
    this.#show = show;
    this.#timer = setInterval(() => this.render(), 250);
    this.render();
  }

  /** @param {number} ms from when a message was sent to when it came back */
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
