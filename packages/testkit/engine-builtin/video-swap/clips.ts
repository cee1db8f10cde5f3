import type { Picture } from '@semblance/engine-api/picture';
import type { Media, Size, WrittenVideo } from '@semblance/media/types';
import { rgbToRegion } from '@semblance/media/yuv';
import { type CropTransform, cropRgb } from '@semblance/vision/picture';
import sharp from 'sharp';

/** Still picture under a moving camera. */
export interface Scene {
  readonly picture: Picture;
  readonly frames: number;
  /** Returns the camera's view in a frame of the scene. */
  readonly view: (frame: number) => View;
  /** Changes the drawn frame (RGB, 0–255), for light, occluders and the like. */
  readonly change?: (rgb: Float32Array, frame: number, size: Size) => void;
}

/** Camera view of a picture: its centre and its scale. */
export interface View {
  readonly x: number;
  readonly y: number;
  /** Pixels of the frame per pixel of the picture. */
  readonly zoom: number;
  /** Clockwise turn of the camera, in radians. */
  readonly turn?: number;
}

export interface Clip extends Size {
  readonly path: string;
  readonly scenes: readonly Scene[];
  /** Standard deviation of the camera noise, in brightness levels. Default 2.5. */
  readonly noise?: number;
  /** Returns the time of a frame in microseconds. Default: 25 frames per second. */
  readonly timeUs?: (frame: number) => number;
  /** File that contains the sound. */
  readonly audio?: string;
}

export const COLOR = { range: 'tv', space: 'bt709', primaries: 'bt709', transfer: 'bt709' } as const;

/** Films scenes in sequence, with a hard cut between them. */
export async function makeClip(media: Media, clip: Clip): Promise<WrittenVideo> {
  const { width, height, path, audio } = clip;
  const { signal } = new AbortController();
  const timeUs = clip.timeUs ?? ((frame: number) => frame * 40_000);
  const writer = await media.openWriter({
    path,
    width,
    height,
    color: COLOR,
    signal,
    frameRate: 25,
    ...(audio ? { audio: { path: audio } } : {}),
  });
  const noise = new Noise(clip.noise ?? 2.5);
  let index = 0;
  for (const scene of clip.scenes) {
    for (let frame = 0; frame < scene.frames; frame++) {
      const { data } = cropRgb(scene.picture, cropOf(scene.view(frame), clip), width, height);
      scene.change?.(data, frame, clip);
      noise.add(data);
      const out = new Uint8Array((width * height * 3) / 2);
      const rect = { x: 0, y: 0, width, height };
      rgbToRegion({ width, height, data: out }, rect, data, COLOR);
      await writer.write({ ptsUs: timeUs(index++), data: out });
    }
  }
  return writer.finish(timeUs(index));
}

/** Returns the crop that a view shows. */
export function cropOf({ x, y, zoom, turn = 0 }: View, { width, height }: Size): CropTransform {
  const scale = 1 / zoom;
  const cos = Math.cos(turn) * scale;
  const sin = Math.sin(turn) * scale;
  return {
    scale,
    angle: turn,
    originX: x - (cos * width - sin * height) / 2,
    originY: y - (sin * width + cos * height) / 2,
  };
}

export async function readPicture(file: string): Promise<Picture> {
  const { data, info } = await sharp(file)
    .toColourspace('srgb')
    .removeAlpha()
    .raw()
    .toBuffer({ resolveWithObject: true });
  return { width: info.width, height: info.height, channels: 3, data: new Uint8Array(data) };
}

/** Brightness noise that is equal in every run. */
class Noise {
  readonly #values = new Float32Array(1 << 18);
  #seed = 1;

  constructor(deviation: number) {
    for (let i = 0; i < this.#values.length; i++) {
      let sum = 0;
      for (let k = 0; k < 4; k++) sum += this.#random() - 0.5;
      // Four uniform values have a variance of 4 / 12.
      this.#values[i] = sum * Math.sqrt(3) * deviation;
    }
  }

  add(rgb: Float32Array): void {
    const { length } = this.#values;
    let at = Math.floor(this.#random() * length);
    for (let i = 0; i < rgb.length; i += 3) {
      // The noise must not repeat with the period of the frame.
      if (i % 30_000 === 0) at = Math.floor(this.#random() * length);
      const value = this.#values[at++ % length] as number;
      for (let c = 0; c < 3; c++) rgb[i + c] = Math.min(255, Math.max(0, (rgb[i + c] as number) + value));
    }
  }

  /** Park and Miller's generator. */
  #random(): number {
    this.#seed = (this.#seed * 48_271) % 2_147_483_647;
    return this.#seed / 2_147_483_647;
  }
}
