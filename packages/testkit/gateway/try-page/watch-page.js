/**
 * Runs in the page before its own scripts: notes what the page takes of the browser, and holds up what a test asks it to.
 * Sockets go to the gateway of the test instead of its public name.
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
      super(url.replace('ws://gateway.test', window.testOrigin.replace('http', 'ws')));
      held.sockets.push(this);
    }
  };
  const decode = window.createImageBitmap.bind(window);
  window.createImageBitmap = async (...picture) => {
    if (held.holdDecodes) await new Promise((resolve) => held.decodes.push(resolve));
    return decode(...picture);
  };
  /** What is not given back. */
  held.open = () => [
    ...held.tracks.filter(({ readyState }) => readyState !== 'ended').map(({ kind }) => kind),
    ...held.contexts.filter(({ state }) => state !== 'closed').map(() => 'context'),
    ...held.sockets.filter(({ readyState }) => readyState < 2).map(() => 'socket'),
  ];
  // A page that is not secure has none.
  const { mediaDevices } = navigator;
  if (!mediaDevices) return;
  const ask = mediaDevices.getUserMedia.bind(mediaDevices);
  mediaDevices.getUserMedia = async (constraints) => {
    // A name of a refusal, or a promise to wait for.
    if (typeof held.device === 'string') throw new DOMException('', held.device);
    await held.device;
    const stream = await ask(constraints);
    held.tracks.push(...stream.getTracks());
    return stream;
  };
})();
