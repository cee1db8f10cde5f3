/** Wakes one waiter. A ring while nobody waits ends the next wait at once. */
export interface Bell {
  ring(): void;
  /** Waits for a ring, for at most `milliseconds`. */
  wait(milliseconds: number): Promise<void>;
}

export function createBell(): Bell {
  let rung = false;
  let wake = () => {};
  return {
    ring() {
      rung = true;
      wake();
    },
    async wait(milliseconds) {
      if (!rung) {
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, milliseconds);
          wake = () => {
            clearTimeout(timer);
            resolve();
          };
        });
      }
      rung = false;
      wake = () => {};
    },
  };
}
