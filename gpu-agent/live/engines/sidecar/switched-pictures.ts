import type { FlowListener, LiveFlow } from '@semblance/engine-api/live-engine';
import { readJpegHeader } from '@semblance/engine-builtin/live-swap/jpeg-header';
import { LiveVideoError } from '@semblance/engine-builtin/live-swap/types';

type Flow = Pick<LiveFlow, 'hasRoom' | 'listen' | 'push' | 'pause' | 'resume' | 'close'>;

/** Pictures of one session that pass through a flow, or unchanged, as is said while they come. */
export interface SwitchedPictures extends Flow {
  /** Sends pictures through this flow from now on, or through the one that there is. */
  through(flow?: Flow): void;
  /** Lets pictures pass unchanged from now on; the flow waits. */
  pass(): void;
}

/** Begins with pictures that pass unchanged. */
export function createSwitchedPictures(): SwitchedPictures {
  let listener: FlowListener | undefined;
  let flow: Flow | undefined;
  let passes = true;
  let paused = false;
  let closed = false;
  /** The last picture that passed unchanged. The flow may still answer earlier ones. */
  let lastPassed = 0n;

  const inner: FlowListener = {
    converted(sequence, message) {
      if (!passes && sequence > lastPassed) listener?.converted(sequence, message);
    },
    unreadable(sequence) {
      if (!passes && sequence > lastPassed) listener?.unreadable(sequence);
    },
    room: () => listener?.room(),
  };

  return {
    get hasRoom() {
      return passes || (flow?.hasRoom ?? false);
    },
    listen(given) {
      listener = given;
      flow?.listen(inner);
    },
    push(sequence, message) {
      if (!passes) return flow?.push(sequence, message);
      lastPassed = sequence;
      try {
        readJpegHeader(message);
      } catch (error) {
        if (!(error instanceof LiveVideoError)) throw error;
        listener?.unreadable(sequence);
        return;
      }
      listener?.converted(sequence, message);
    },
    pause() {
      paused = true;
      flow?.pause();
    },
    resume() {
      paused = false;
      flow?.resume();
    },
    through(given) {
      passes = false;
      if (!given) return;
      if (closed) return void given.close();
      flow = given;
      if (listener) flow.listen(inner);
      if (paused) flow.pause();
    },
    pass() {
      passes = true;
      listener?.room();
    },
    async close() {
      closed = true;
      await flow?.close();
    },
  };
}
