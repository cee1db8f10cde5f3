/** Shortest standstill in ms that makes a service exceed its time limits. */
const STANDSTILL_MS = 2_000;
const EVERY_MS = 100;

let lookedAt = performance.now();
/** Time at which this process last resumed after a standstill. */
let wentOnAt = Number.NEGATIVE_INFINITY;

function look(): void {
  const now = performance.now();
  if (now - lookedAt > STANDSTILL_MS) wentOnAt = now;
  lookedAt = now;
}
setInterval(look, EVERY_MS).unref();

/** Whether the machine has stood still for seconds since then (performance.now()), as this process saw it. */
export function stoodStillSince(began: number): boolean {
  // The process may have resumed just now.
  look();
  return wentOnAt >= began;
}

/**
 * Asks a service. A failure during a standstill says nothing about the service, so the request is repeated once.
 * @param failed recognises an answer that is a failure of the service
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
