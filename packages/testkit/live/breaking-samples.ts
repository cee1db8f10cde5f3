/** First samples of chunks at which the thread of breaking-voice-thread.ts ends, or hangs. */
export const ENDS = 12_345;
export const HANGS = 12_346;
