/** Globals of an AudioWorklet script, which TypeScript's libraries lack. */
declare class AudioWorkletProcessor {
  readonly port: MessagePort;
}
declare const sampleRate: number;
declare function registerProcessor(
  name: string,
  processor: new (options: never) => AudioWorkletProcessor,
): void;
