/** Standing still for less costs no service its time limit. */
const STANDSTILL_MS = 2_000;
const EVERY_MS = 100;

let lookedAt = performance.now();
/** When this process went on after it had stood still, last. */
let wentOnAt = Number.NEGATIVE_INFINITY;

function look(): void {
  const now = performance.now();
  if (now - lookedAt > STANDSTILL_MS) wentOnAt = now;
  lookedAt = now;
}
setInterval(look, EVERY_MS).unref();

/** Whether the machine has stood still for seconds, as far as this process can tell, since then (performance.now()). */
export function stoodStillSince(began: number): boolean {
  // It may have gone on just now.
  look();
  return wentOnAt >= began;
}

/**
 * What a service answers. A failure on a machine that stood still meanwhile says nothing about the service: the same is
 * asked once more.
 * @param failed an answer that is a failure of the service
 */
export async function askFairly<T>(
  ask: () => Promise<T>,
  failed: (answer: T) => boolean = () => false,
): Promise<T> {
  const began = performance.now();
  const fair = () => !stoodStillSince(began);
  let answer: T;
  try {
    answer = await ask();
  } catch (error) {
    if (fair()) throw error;
    return ask();
  }
  return !failed(answer) || fair() ? answer : ask();
}
