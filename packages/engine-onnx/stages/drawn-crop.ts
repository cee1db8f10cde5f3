import type { CropTransform, RgbImage } from '@semblance/vision/picture';
import type { Plane } from '@semblance/vision/plane/plane';

/** A crop that a model drew, and its position. */
export interface DrawnCrop {
  readonly transform: CropTransform;
  readonly crop: RgbImage;
}

/** A face drawn with another identity, and the same crop of the picture as it was. */
export interface SwappedCrop extends DrawnCrop {
  readonly base: RgbImage;
  /** Where the network drew a face, over the crop; undefined: anywhere. */
  readonly drawn?: Plane;
}
