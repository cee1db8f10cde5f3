/** What a pixel is to a completion. */
export const KIND = {
  /** It is seen and may be copied. */
  source: 0,
  /** It is hidden and gets a source. */
  hidden: 1,
  /** It is seen but not copied, because it may show a fringe of what hides the rest. */
  context: 2,
  /** It counts for nothing. */
  ignored: 3,
} as const;
