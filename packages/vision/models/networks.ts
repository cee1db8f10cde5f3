/** The networks of this package, as ONNX files that `npm run generate` writes (tools/convert-models). */
export const NETWORKS = [
  /** Finds faces: 896 anchors on 256² RGB in [-1, 1]; score logits, boxes and six key points by stride. */
  'blazeface',
  /** 468 points in 3-D on a 192² face crop, RGB in [0, 1]; coordinates in pixels of the crop. */
  'facemesh',
  /** 1024-d face descriptor on a 224² crop, RGB in 0–255. */
  'faceres',
  /** Finds people: 2,254 anchors on 224² RGB in [-1, 1]; score logits, boxes and four key points. */
  'pose_detector',
  /**
   * 39 points (33 of the body, 2 that say where it is, 4 unused) with x, y and z in pixels of a 256² crop, and logits of
   * visibility and presence; the belief that the crop shows a person; logits of its mask and of one heat map a point.
   * The crop is RGB in [0, 1].
   */
  'pose_full',
  /** As `pose_full`, quicker and less exact. */
  'pose_lite',
] as const;

export type NetworkName = (typeof NETWORKS)[number];

/** Address of a network's file. */
export function networkFile(name: NetworkName): URL {
  return new URL(`./gen/${name}.onnx`, import.meta.url);
}
