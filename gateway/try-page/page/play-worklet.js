/**
 * Plays chunks of 16-bit samples one after the other, once a few have arrived. Counts gaps: when it runs out of
 * chunks, and when some are dropped.
 */
const START_WITH_CHUNKS = 3;
/** Number of waiting chunks above which the oldest are dropped; otherwise the delay would stay. */
const MOST_CHUNKS = 15;

class Play extends AudioWorkletProcessor {
  constructor() {
    super();
    /** @type {Int16Array[]} */
    this.chunks = [];
    this.at = 0;
    this.playing = false;
    this.gaps = 0;
    this.quanta = 0;
    /** @param {{ data: ArrayBuffer }} message */
    this.port.onmessage = ({ data }) => {
      this.chunks.push(new Int16Array(data));
      if (this.chunks.length > MOST_CHUNKS) {
        this.chunks.splice(0, this.chunks.length - START_WITH_CHUNKS);
        this.at = 0;
        this.gaps++;
      }
      if (this.chunks.length >= START_WITH_CHUNKS) this.playing = true;
    };
  }

  /** @param {Float32Array[][]} _inputs @param {Float32Array[][]} outputs */
  process(_inputs, outputs) {
    const out = outputs[0]?.[0];
    if (out && this.playing) this.fill(out);
    if (++this.quanta % 64 === 0) {
      const waiting = this.chunks.reduce((sum, chunk) => sum + chunk.length, -this.at);
      this.port.postMessage({ gaps: this.gaps, waitingMs: (Math.max(0, waiting) / sampleRate) * 1000 });
    }
    return true;
  }

  /** @param {Float32Array} out */
  fill(out) {
    for (let i = 0; i < out.length; i++) {
      const chunk = this.chunks[0];
      if (!chunk) {
        this.playing = false;
        this.gaps++;
        return;
      }
      out[i] = (chunk[this.at++] ?? 0) / 32768;
      if (this.at === chunk.length) {
        this.chunks.shift();
        this.at = 0;
      }
    }
  }
}
registerProcessor('play', Play);
