/** The networks of this package, as ONNX files. */
export const NETWORKS = [
  /** Face detector: 896 anchors on 256² RGB in [-1, 1]; score logits, boxes and six key points by stride. */
  'blazeface',
  /** Face mesh: 468 points in 3-D on a 192² face crop, RGB in [0, 1]; coordinates in pixels of the crop. */
  'facemesh',
  /**
   * Last layer of another face detector: 512 features in 5 × 5 cells of a 160² crop, planes of red, green and blue
   * in 0–255.
   */
  'face_features',
  /** What stands in front of a face: 96² crop, planes of red, green and blue in [0, 1]; share of each pixel. */
  'face_cover',
  /**
   * Face recogniser: 1024-d descriptor of a 224² crop, RGB in 0–255, and the probability that the face is taken for a
   * man's.
   */
  'faceres',
  /** Person detector: 2,254 anchors on 224² RGB in [-1, 1]; score logits, boxes and four key points. */
  'pose_detector',
  /**
   * Body landmarks on a 256² crop, RGB in [0, 1]. Outputs: 39 points (33 of the body, 2 that give its position, 4
   * unused) with x, y and z in pixels of the crop and logits of visibility and presence; the probability that the
   * crop shows a person; logits of its mask and of one heat map per point.
   */
  'pose_full',
  /**
   * Nudity: 224² RGB in [0, 1] → shares of the classes drawing, hentai, neutral, porn and sexy.
   */
  'nudity',
] as const;

export type NetworkName = (typeof NETWORKS)[number];

/** The network that was trained here (tools/train-face-cover); `npm run generate` writes all others. */
export const SHIPPED = 'face_cover' satisfies NetworkName;

/** Returns the URL of a network's file. */
export function networkFile(name: NetworkName): URL {
  return new URL(name === SHIPPED ? `./${name}.onnx` : `./gen/${name}.onnx`, import.meta.url);
}
