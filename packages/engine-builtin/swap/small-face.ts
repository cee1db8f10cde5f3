import type { Picture } from '@semblance/engine-api/picture';
import { evenRect } from '@semblance/media/yuv';
import { type Face, faceFromPoints } from '@semblance/vision/face-mesh';
import { cubicSample } from '@semblance/vision/plane/cubic';
import { jawBox } from './move-jaw.ts';

/** Face width, in pixels, from which a face is swapped as it is. */
const ENOUGH = 100;
/** Largest enlargement: more shows nothing that fewer pixels do not. */
const MOST = 3;
/** Margin around the face and its jaw, as a share of the face width. */
const MARGIN = 0.5;

/** A picture, or a part of it enlarged, in which a face is swapped. */
export interface Enlarged {
  readonly picture: Picture;
  /** The face, in its pixels. */
  readonly face: Face;
  /** Its upper left corner in the picture that it was made of, and its pixels per pixel of that. */
  readonly x: number;
  readonly y: number;
  readonly by: number;
  /** Adds what was drawn into it to the picture that it was made of. Pixels without a change stay as they are. */
  lay(): void;
}

/**
 * Returns how many times enlarged a face is swapped: on its own few pixels, masks with soft edges would be as wide as an
 * eye, and dim it.
 * @param width of the face, in pixels
 */
function enlargementOf(width: number): number {
  return Math.min(MOST, Math.max(1, Math.ceil(ENOUGH / width)));
}

/** Returns the width at which a face is swapped, for which its source is prepared. */
export function drawnWidth(width: number): number {
  return width * enlargementOf(width);
}

/** Enlarges the part of a picture that a swap of a small face reads and changes; any other picture stays as it is. */
export function enlarged(picture: Picture, face: Face): Enlarged {
  const by = enlargementOf(face.width);
  if (by === 1) return { picture, face, x: 0, y: 0, by, lay: () => undefined };
  const { channels } = picture;
  const margin = MARGIN * face.width;
  const jaw = jawBox(face);
  const box = evenRect(
    {
      x: jaw.x - margin,
      y: jaw.y - 2 * margin,
      width: jaw.width + 2 * margin,
      height: jaw.height + 3 * margin,
    },
    picture,
  );
  const [width, height] = [box.width * by, box.height * by];
  const wide = picture.data instanceof Uint16Array;
  const data = new (wide ? Uint16Array : Uint8Array)(width * height * channels);
  const most = wide ? 65_535 : 255;
  const values = new Float32Array(channels);
  for (let y = 0, i = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      cubicSample(picture, box.x + (x + 0.5) / by - 0.5, box.y + (y + 0.5) / by - 0.5, values);
      for (let c = 0; c < channels; c++, i++)
        data[i] = Math.min(most, Math.max(0, (values[c] as number) + 0.5));
    }
  }
  const before = data.slice();
  const points = face.points.map((v, i) => (v - (i % 3 === 0 ? box.x : i % 3 === 1 ? box.y : 0)) * by);
  const lay = (): void => {
    for (let y = 0; y < box.height; y++) {
      for (let x = 0; x < box.width; x++) {
        for (let c = 0; c < channels; c++) {
          let change = 0;
          for (
            let v = 0, from = (y * by * width + x * by) * channels + c;
            v < by;
            v++, from += width * channels
          )
            for (let u = 0, i = from; u < by; u++, i += channels)
              change += (data[i] as number) - (before[i] as number);
          if (change === 0) continue;
          const at = ((box.y + y) * picture.width + box.x + x) * channels + c;
          const value = (picture.data[at] as number) + change / (by * by) + 0.5;
          picture.data[at] = Math.min(most, Math.max(0, value));
        }
      }
    }
  };
  const { x, y } = box;
  return {
    picture: { width, height, channels, data },
    face: faceFromPoints(points, face.score),
    x,
    y,
    by,
    lay,
  };
}
