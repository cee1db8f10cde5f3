/**
 * Ticks per second of the video track. All common frame rates (24, 25, 30, 48, 50, 60, and their 1000/1001 parts),
 * the milliseconds of WebM and the 90 kHz of MPEG are whole numbers of ticks.
 */
export const TICKS_PER_SECOND = 360_000;
