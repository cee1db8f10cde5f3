import {
  BadMessageError,
  type LiveEngine,
  type LiveStream,
  type OpenLiveOptions,
} from '@semblance/engine-api/live-engine';

/** An engine of pictures that keeps to the contract and does what its test says; a picture comes back as it is. */
export function createTestLiveEngine(change: { slots?: number; delivery?: LiveEngine['delivery'] } = {}) {
  const { slots = 2, delivery = 'newest' } = change;
  const state = {
    /** Streams that are open. */
    open: 0,
    opened: 0,
    /** Conversions wait while it is held. */
    held: undefined as Promise<void> | undefined,
    /** Messages that cannot be taken. */
    isBad: (_message: Uint8Array) => false,
    /** What the next open does instead. */
    onOpen: undefined as ((options: OpenLiveOptions) => Promise<void>) | undefined,
    /** Of the last stream. */
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
