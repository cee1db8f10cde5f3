import type { LiveFlow } from '@semblance/engine-api/live-engine';
import { createQueue, type Pump, type PumpOptions } from './pump.ts';

/** Number of answers that wait for the transport, at which a flow of sound has to wait. */
const MAX_ANSWERS = 8;
/** Messages whose time of arrival is remembered. */
const MAX_REMEMBERED = 256;

interface Answer {
  readonly sequence: bigint;
  /** Undefined: the message could not be read. */
  readonly data: Uint8Array | undefined;
}

/**
 * Creates the pump that passes the messages of one session through a flow. Messages wait while the flow has no room:
 * with `every` the sender is stopped then, with `newest` the newest waits and older ones are dropped. So do answers
 * while the transport has no room.
 */
export function createFlowPump(flow: LiveFlow, options: PumpOptions): Pump {
  const { delivery } = options;
  const queue = createQueue(options);
  const arrivals: { readonly sequence: bigint; readonly at: number }[] = [];
  const answers: Answer[] = [];
  let sending = false;
  let held = false;
  let stopped = false;

  function give(): void {
    while (!stopped && flow.hasRoom) {
      const message = queue.take();
      if (!message) return;
      const { sequence, data, at } = message;
      arrivals.push({ sequence, at });
      if (arrivals.length > MAX_REMEMBERED) arrivals.shift();
      options.onConverting?.(data);
      flow.push(sequence, data);
    }
  }

  /** Returns when the newest message that this answer was made of had come; undefined when that was told before. */
  function arrivalOf(sequence: bigint): number | undefined {
    let at: number | undefined;
    while (arrivals[0] && arrivals[0].sequence <= sequence) at = arrivals.shift()?.at;
    return at;
  }

  function answer(next: Answer): void {
    if (stopped) return;
    if (delivery === 'newest' && next.data) {
      const older = answers.findIndex(({ data }) => data);
      if (older >= 0) {
        answers.splice(older, 1);
        options.onDropped();
      }
    }
    answers.push(next);
    if (delivery === 'every' && !held && answers.length >= MAX_ANSWERS) {
      held = true;
      flow.pause();
    }
    if (!sending) void send();
  }

  async function send(): Promise<void> {
    sending = true;
    try {
      for (let next = answers.shift(); next && !stopped; next = answers.shift()) {
        if (next.data) await options.send(next.sequence, next.data);
        else await options.refuse(next.sequence);
        const at = arrivalOf(next.sequence);
        if (!stopped && next.data) options.onConverted(at === undefined ? undefined : performance.now() - at);
        if (held && answers.length <= MAX_ANSWERS / 2) {
          held = false;
          flow.resume();
        }
      }
    } catch (error) {
      if (stopped) return;
      stopped = true;
      options.onFailed(error);
    } finally {
      sending = false;
    }
  }

  flow.listen({
    converted: (sequence, data) => answer({ sequence, data }),
    unreadable(sequence) {
      if (stopped) return;
      options.onDropped();
      answer({ sequence, data: undefined });
    },
    room: give,
  });

  return {
    push(sequence, data) {
      if (!stopped && queue.push(sequence, data)) give();
    },
    stop() {
      stopped = true;
      queue.clear();
      answers.length = 0;
    },
  };
}
