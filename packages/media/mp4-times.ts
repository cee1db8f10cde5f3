/**
 * Ticks per second of the video track. It makes a whole number of ticks of all common frame rates (24, 25, 30, 48,
 * 50, 60, and their 1000/1001 parts), of WebM's milliseconds and of MPEG's 90 kHz.
 */
export const TICKS_PER_SECOND = 360_000;
