import {
  BadMessageError,
  type LiveChange,
  type LiveChanged,
  type LiveEngine,
  type LiveStream,
  type OpenLiveOptions,
} from '@semblance/engine-api/live-engine';

/** Creates an engine of pictures that fulfils the contract, follows its test, and returns each picture unchanged. */
export function createTestLiveEngine(change: { slots?: number; delivery?: LiveEngine['delivery'] } = {}) {
  const { slots = 2, delivery = 'newest' } = change;
  const state = {
    /** Number of open streams. */
    open: 0,
    opened: 0,
    /** Conversions wait for this promise. */
    held: undefined as Promise<void> | undefined,
    /** Recognises messages that the engine refuses. */
    isBad: (_message: Uint8Array) => false,
    /** Replaces the next open. */
    onOpen: undefined as ((options: OpenLiveOptions) => Promise<void>) | undefined,
    /** What a change of a stream leads to; undefined: streams cannot be changed. */
    onChange: undefined as ((to: LiveChange) => Promise<LiveChanged>) | undefined,
    /** Callback of the last stream. */
    onFailed: undefined as OpenLiveOptions['onFailed'] | undefined,
  };
  async function open(options: OpenLiveOptions): Promise<LiveStream> {
    await state.onOpen?.(options);
    options.signal.throwIfAborted();
    state.open++;
    state.opened++;
    state.onFailed = options.onFailed;
    let closed = false;
    return {
      firstFrame: '{"width":640,"height":480,"fps":25,"codec":"jpeg"}',
      format: {
        kind: 'picture',
        width: 640,
        height: 480,
        fps: 25,
        codec: 'jpeg',
        maxSide: 1280,
        maxPixels: 1280 * 720,
      },
      maxMessageBytes: 2 * 1024 * 1024,
      async transform(message) {
        await state.held;
        if (state.isBad(message)) throw new BadMessageError('not taken');
        return message;
      },
      change: state.onChange,
      async close() {
        if (!closed) state.open--;
        closed = true;
      },
    };
  }
  const engine: LiveEngine = {
    capability: 'full-live-swap',
    delivery,
    slots,
    warming: false,
    warmUp: async () => {},
    check: () => {},
    open,
    close: async () => {},
  };
  return { engine, state };
}
