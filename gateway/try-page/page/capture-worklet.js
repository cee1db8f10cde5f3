/** Collects its input into chunks of 16-bit samples and sends each when it is full. */
class Capture extends AudioWorkletProcessor {
  /** @param {{ processorOptions: { chunkFrames: number } }} options */
  constructor({ processorOptions }) {
    super();
    this.chunk = new Int16Array(processorOptions.chunkFrames);
    this.filled = 0;
  }

  /** @param {Float32Array[][]} inputs */
  process(inputs) {
    const channels = inputs[0] ?? [];
    const length = channels[0]?.length ?? 0;
    for (let i = 0; i < length; i++) {
      let sum = 0;
      for (const channel of channels) sum += channel[i] ?? 0;
      const value = Math.max(-1, Math.min(1, sum / channels.length));
      this.chunk[this.filled++] = Math.round(value * 32767);
      if (this.filled === this.chunk.length) {
        const full = this.chunk;
        this.chunk = new Int16Array(full.length);
        this.filled = 0;
        this.port.postMessage(full.buffer, [full.buffer]);
      }
    }
    return true;
  }
}
registerProcessor('capture', Capture);
