/** Type of the small picture of an output, and most bytes that it may have with its marks. */
export const PREVIEW_TYPE = 'image/jpeg';
export const MAX_PREVIEW_BYTES = 1024 * 1024;

/** Returns the key of the small picture of an output: `out/<uid>/1.mp4` has `out/<uid>/1.preview.jpg`. */
export function previewKey(outputKey: string): string {
  return `${outputKey.replace(/\.[a-z0-9]*$/, '')}.preview.jpg`;
}
