/**
 * A decoded picture in memory: interleaved samples, rows without padding. One channel is grey, two are grey and
 * alpha, three are RGB and four are RGB and alpha. 16-bit samples range to 65535, others to 255.
 */
export interface Picture {
  readonly width: number;
  readonly height: number;
  readonly channels: 1 | 2 | 3 | 4;
  readonly data: Uint8Array | Uint16Array;
}
