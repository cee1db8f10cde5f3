/**
 * A run lasts from Start to its end and has one AbortSignal. Everything that the run holds is released when the
 * signal aborts, however the run ended.
 */

/** An end that is no failure: the user stopped, or the granted time is used up. */
export class Over extends Error {}

/** @param {AbortSignal} signal @param {() => void} giveBack called at once when the run is already over */
export function atEnd(signal, giveBack) {
  if (signal.aborted) giveBack();
  else signal.addEventListener('abort', giveBack, { once: true });
}

/**
 * Resolves with a promise, or rejects as soon as the run is over, because a browser may ask its user for any time.
 * @template T @param {Promise<T>} promise @param {AbortSignal} signal @returns {Promise<T>}
 */
export function orEnd(promise, signal) {
  return new Promise((resolve, reject) => {
    atEnd(signal, () => reject(signal.reason));
    promise.then(resolve, reject);
  });
}

/**
 * Silence that ends a run, in ticks. While the page is in front, this is longer than the service keeps a session
 * that returns nothing.
 */
const TICKS_OF_SILENCE = 20;

/**
 * Ends a run whose connection died silently; the browser reports that only after minutes. It counts ticks instead
 * of time, so that a page that stood still first reads what arrived meanwhile.
 * @param {AbortController} run
 * @param {{ sent: number, received: number }} figures
 */
export function watchLine(run, figures) {
  let { sent, received } = figures;
  let ticks = 0;
  const timer = setInterval(() => {
    if (figures.received !== received || figures.sent === sent) {
      ({ sent, received } = figures);
      ticks = 0;
    } else if (++ticks >= TICKS_OF_SILENCE) {
      run.abort(new Error(`nothing has come back for ${TICKS_OF_SILENCE} s`));
    }
  }, 1000);
  atEnd(run.signal, () => clearInterval(timer));
}
