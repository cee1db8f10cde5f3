/** Sound from a microphone or a file to the socket, and what comes back to the speakers. */

/**
 * @typedef {object} Stream
 * @property {() => void} stop
 */

/**
 * @param {WebSocket} socket its next text frame is the first of the session
 * @param {{ sample_rate: number, chunk_frames: number }} format
 * @param {File | undefined} file undefined: the microphone
 * @param {import('./figures.js').Figures} figures
 * @returns {Promise<Stream>}
 */
export async function streamVoice(socket, format, file, figures) {
  const context = new AudioContext({ sampleRate: format.sample_rate, latencyHint: 'interactive' });
  await Promise.all(
    ['capture-worklet.js', 'play-worklet.js'].map((name) =>
      context.audioWorklet.addModule(new URL(name, import.meta.url)),
    ),
  );
  const capture = new AudioWorkletNode(context, 'capture', {
    numberOfOutputs: 0,
    processorOptions: { chunkFrames: format.chunk_frames },
  });
  const play = new AudioWorkletNode(context, 'play', { numberOfInputs: 0, outputChannelCount: [1] });
  play.connect(context.destination);
  const source = file ? await fileSource(context, file) : await microphone(context);

  /** When each chunk that has not come back whole was sent, oldest first, and how many samples of the first are back. @type {number[]} */
  const sentAt = [];
  let back = 0;
  capture.port.onmessage = ({ data }) => {
    if (socket.readyState !== WebSocket.OPEN) return;
    sentAt.push(performance.now());
    socket.send(data);
    figures.sent++;
  };
  play.port.onmessage = ({ data }) => {
    figures.lost = data.gaps;
    figures.waiting = `${data.waitingMs.toFixed(0)} ms`;
  };
  socket.addEventListener('message', ({ data }) => {
    if (!(data instanceof ArrayBuffer)) return;
    figures.received++;
    back += data.byteLength / 2;
    while (back >= format.chunk_frames && sentAt.length > 0) {
      figures.delay(performance.now() - /** @type {number} */ (sentAt.shift()));
      back -= format.chunk_frames;
    }
    play.port.postMessage(data, [data]);
  });
  source.node.connect(capture);
  source.start();
  return {
    stop() {
      source.stop();
      void context.close();
    },
  };
}

/** @param {AudioContext} context */
async function microphone(context) {
  const stream = await navigator.mediaDevices.getUserMedia({
    // What makes calls sound better also bends the voice, and costs time.
    audio: { echoCancellation: false, noiseSuppression: false, autoGainControl: false, channelCount: 1 },
  });
  return {
    node: context.createMediaStreamSource(stream),
    start() {},
    stop() {
      for (const track of stream.getTracks()) track.stop();
    },
  };
}

/** @param {AudioContext} context @param {File} file */
async function fileSource(context, file) {
  const buffer = await context.decodeAudioData(await file.arrayBuffer());
  const node = new AudioBufferSourceNode(context, { buffer, loop: true });
  return { node, start: () => node.start(), stop: () => node.stop() };
}
