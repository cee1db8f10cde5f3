/**
 * A run goes from Start to its end, and has one AbortSignal: whatever the run holds hangs on it, and is given back when it
 * is aborted, however it came to its end.
 */

/** An end that is no failure: somebody stopped, or what was granted is used up. */
export class Over extends Error {}

/** @param {AbortSignal} signal @param {() => void} giveBack called at once where the run is over already */
export function atEnd(signal, giveBack) {
  if (signal.aborted) giveBack();
  else signal.addEventListener('abort', giveBack, { once: true });
}

/**
 * What comes of a promise, or a rejection as soon as the run is over: nobody knows how long a browser asks its user.
 * @template T @param {Promise<T>} promise @param {AbortSignal} signal @returns {Promise<T>}
 */
export function orEnd(promise, signal) {
  return new Promise((resolve, reject) => {
    atEnd(signal, () => reject(signal.reason));
    promise.then(resolve, reject);
  });
}

/** While the page is in front, longer than the service lets a session go on that brings nothing back. */
const TICKS_OF_SILENCE = 20;

/**
 * Ends a run whose line is gone without a word: the browser itself tells only after minutes. Ticks are counted, not time,
 * so that a page which stood still reads first what came meanwhile.
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
