/**
 * Returns a function that processes items one after the other. While one is processed, the newest item waits and
 * replaces the one before: a page that falls behind shows fewer pictures, and none of them late.
 * @template T
 * @param {(one: T) => Promise<void>} work
 * @param {() => void} leftOut called for each replaced or failed item, in order
 * @returns {(one: T) => void}
 */
export function newestOf(work, leftOut) {
  /** @type {{ one: T } | undefined} */
  let waiting;
  let replaced = 0;
  let busy = false;
  async function drain() {
    busy = true;
    while (waiting) {
      const { one } = waiting;
      waiting = undefined;
      // Called now, because they came after the one before.
      for (; replaced > 0; replaced--) leftOut();
      await work(one).catch(leftOut);
    }
    busy = false;
  }
  return (one) => {
    if (waiting) replaced++;
    waiting = { one };
    if (!busy) void drain();
  };
}
