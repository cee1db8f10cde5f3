/**
 * Runs in the page before its own scripts. It records the browser resources that the page holds, and delays what a test
 * asks for.
 */
(() => {
  const held = { tracks: [], contexts: [], sockets: [], decodes: [], holdDecodes: false, device: undefined };
  window.held = held;
  window.AudioContext = class extends AudioContext {
    constructor(...options) {
      super(...options);
      held.contexts.push(this);
    }
  };
  window.WebSocket = class extends WebSocket {
    constructor(url) {
      super(url);
      held.sockets.push(this);
    }
  };
  const decode = window.createImageBitmap.bind(window);
  window.createImageBitmap = async (...picture) => {
    if (held.holdDecodes) await new Promise((resolve) => held.decodes.push(resolve));
    return decode(...picture);
  };
  /** Lists resources that are not released. */
  held.open = () => [
    ...held.tracks.filter(({ readyState }) => readyState !== 'ended').map(({ kind }) => kind),
    ...held.contexts.filter(({ state }) => state !== 'closed').map(() => 'context'),
    ...held.sockets.filter(({ readyState }) => readyState < 2).map(() => 'socket'),
  ];
  // A page in an insecure context has none.
  const { mediaDevices } = navigator;
  if (!mediaDevices) return;
  const ask = mediaDevices.getUserMedia.bind(mediaDevices);
  mediaDevices.getUserMedia = async (constraints) => {
    // Name of a refusal, or a promise to wait for.
    if (typeof held.device === 'string') throw new DOMException('', held.device);
    await held.device;
    const stream = await ask(constraints);
    held.tracks.push(...stream.getTracks());
    return stream;
  };
})();
