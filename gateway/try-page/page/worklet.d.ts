/** States what a script of an AudioWorklet finds beside the language itself; TypeScript's libraries do not have it. */
declare class AudioWorkletProcessor {
  readonly port: MessagePort;
}
declare const sampleRate: number;
declare function registerProcessor(
  name: string,
  processor: new (options: never) => AudioWorkletProcessor,
): void;
