import { join } from 'node:path';
import type { Picture } from '@semblance/engine-api/picture';
import sharp from 'sharp';

const ROOT = join(import.meta.dirname, '..', '..', '..');
const MEDIA = join(ROOT, 'media');
const DEMO = join(ROOT, 'node_modules', '@vladmandic', 'face-api', 'demo');

interface Cutout {
  readonly file: string;
  /** Width to which the photograph is scaled before the person is cut out. */
  readonly width: number;
  /** Outline drawn by hand, x and y in turn; pixels outside belong to nobody. */
  readonly outline: readonly number[];
}

export const CUTOUTS = {
  /** Half a body, without the helmet in front of it. */
  astronaut: {
    file: join(MEDIA, 'astronaut.png'),
    width: 512,
    outline: [
      35, 511, 25, 460, 19, 420, 22, 380, 30, 340, 36, 305, 50, 265, 72, 240, 100, 220, 114, 205, 116, 190,
      125, 170, 145, 155, 165, 149, 184, 149, 183, 140, 172, 118, 158, 104, 153, 85, 154, 65, 165, 45, 185,
      30, 205, 18, 232, 15, 260, 20, 280, 35, 293, 55, 301, 80, 297, 103, 285, 120, 272, 130, 262, 150, 257,
      172, 275, 185, 295, 205, 304, 235, 303, 240, 325, 252, 342, 275, 352, 300, 360, 330, 362, 348, 335, 358,
      310, 380, 290, 410, 279, 450, 277, 480, 280, 511,
    ],
  },
  /** Head and chest, dark, with a cap. */
  admiral: {
    file: join(MEDIA, 'grace_hopper.jpg'),
    width: 512,
    outline: [
      15, 600, 18, 516, 24, 461, 33, 418, 44, 387, 70, 376, 114, 368, 164, 354, 191, 341, 204, 319, 191, 297,
      175, 283, 162, 264, 160, 236, 154, 214, 152, 189, 160, 165, 149, 143, 149, 110, 156, 97, 178, 86, 180,
      68, 193, 53, 219, 44, 224, 29, 259, 23, 297, 30, 303, 44, 329, 51, 347, 66, 354, 88, 367, 97, 371, 115,
      371, 154, 365, 174, 376, 187, 375, 220, 365, 258, 358, 286, 345, 305, 332, 313, 340, 324, 378, 343, 422,
      360, 466, 374, 488, 390, 497, 418, 501, 472, 508, 549, 510, 600,
    ],
  },
  /** From head to thigh, from the side, long fair hair. */
  dancer: {
    file: join(DEMO, 'sample4.jpg'),
    width: 1000,
    outline: [
      680, 85, 700, 65, 735, 52, 770, 55, 795, 70, 808, 100, 815, 150, 822, 220, 828, 290, 826, 340, 832, 370,
      846, 410, 846, 435, 880, 455, 920, 490, 945, 530, 972, 578, 955, 590, 925, 600, 918, 640, 905, 690, 898,
      735, 895, 754, 790, 754, 788, 720, 790, 690, 740, 700, 715, 707, 693, 695, 700, 660, 715, 600, 722, 550,
      720, 500, 700, 495, 678, 503, 665, 490, 663, 465, 668, 450, 690, 443, 680, 400, 664, 360, 658, 330, 658,
      300, 655, 250, 652, 210, 660, 180, 668, 150, 668, 120,
    ],
  },
  /** From head to hip, leaning over, long hair, dark clothes. */
  nurse: {
    file: join(DEMO, 'sample1.jpg'),
    width: 1000,
    outline: [
      785, 128, 800, 110, 835, 95, 875, 98, 905, 130, 920, 180, 930, 240, 935, 300, 940, 380, 950, 440, 958,
      470, 930, 475, 890, 465, 850, 440, 830, 430, 815, 480, 812, 520, 805, 560, 808, 600, 800, 640, 790, 666,
      690, 666, 665, 640, 640, 600, 635, 540, 640, 480, 650, 420, 655, 360, 645, 320, 655, 290, 665, 260, 690,
      235, 725, 220, 740, 205, 757, 180, 770, 155,
    ],
  },
} as const satisfies Record<string, Cutout>;

/** Parts of photographs without people. */
export const PLACES = {
  studio: { file: join(MEDIA, 'astronaut.png'), width: 512, part: [305, 0, 207, 270] },
  wall: { file: join(DEMO, 'sample4.jpg'), width: 1000, part: [835, 0, 165, 500] },
  bar: { file: join(DEMO, 'sample3.jpg'), width: 1000, part: [0, 0, 250, 170] },
} as const;

export interface Composite {
  readonly picture: Picture;
  /** Coverage of the person, 0–255. */
  readonly truth: Uint8Array;
}

/**
 * Places a person of one photograph in front of another one. The covered area is known exactly, whatever the
 * outline omits.
 * @param options.share height of the person as a share of the picture's; the person stands on the lower edge
 * @param options.at position of the person's middle, 0 left and 1 right
 */
export async function composite(
  person: keyof typeof CUTOUTS,
  place: keyof typeof PLACES,
  { share = 0.9, at = 0.5, width = 960, height = 540 } = {},
): Promise<Composite> {
  const data = await background(place, width, height);
  const truth = new Uint8Array(width * height);
  const cut = await cutout(person, Math.round(share * height));
  const left = Math.round(width * at - cut.width / 2);
  const top = height - cut.height;
  for (let y = 0; y < cut.height; y++) {
    for (let x = Math.max(0, -left); x < Math.min(cut.width, width - left); x++) {
      const from = y * cut.width + x;
      const to = (top + y) * width + left + x;
      const alpha = (cut.alpha[from] as number) / 255;
      truth[to] = cut.alpha[from] as number;
      for (let c = 0; c < 3; c++) {
        data[to * 3 + c] =
          (data[to * 3 + c] as number) * (1 - alpha) + (cut.data[from * 3 + c] as number) * alpha;
      }
    }
  }
  return { picture: { width, height, channels: 3, data }, truth };
}

/** Returns a place without a person. */
export async function background(
  name: keyof typeof PLACES,
  width: number,
  height: number,
): Promise<Uint8Array> {
  const { file, width: fileWidth, part } = PLACES[name];
  const [left, top, partWidth, partHeight] = part;
  const whole = await sharp(file).resize(fileWidth).toColourspace('srgb').removeAlpha().png().toBuffer();
  const bytes = await sharp(whole)
    .extract({ left, top, width: partWidth, height: partHeight })
    .resize(width, height, { fit: 'cover' })
    .raw()
    .toBuffer();
  return new Uint8Array(bytes);
}

async function cutout(
  name: keyof typeof CUTOUTS,
  height: number,
): Promise<{ width: number; height: number; data: Uint8Array; alpha: Uint8Array }> {
  const { file, width: fileWidth, outline } = CUTOUTS[name];
  const whole = await sharp(file).resize(fileWidth).toColourspace('srgb').removeAlpha().png().toBuffer();
  const { width: w, height: h } = await sharp(whole).metadata();
  const along = (axis: 0 | 1): number[] => outline.filter((_, i) => i % 2 === axis);
  const left = Math.max(0, Math.min(...along(0)) - 2);
  const top = Math.max(0, Math.min(...along(1)) - 2);
  const box = { left, top, width: Math.min(w, Math.max(...along(0)) + 2) - left, height: h - top };
  const shape = Buffer.from(
    `<svg xmlns="http://www.w3.org/2000/svg" width="${w}" height="${h}"><rect width="100%" height="100%"/><polygon fill="white" points="${outline.join(' ')}"/></svg>`,
  );
  const width = Math.round((box.width / box.height) * height);
  const scaled = (bytes: Buffer) => sharp(bytes).extract(box).resize(width, height, { fit: 'fill' });
  const alpha = await sharp(shape).greyscale().blur(0.7).png().toBuffer();
  return {
    width,
    height,
    data: new Uint8Array(await scaled(whole).removeAlpha().raw().toBuffer()),
    alpha: new Uint8Array(await scaled(alpha).extractChannel(0).raw().toBuffer()),
  };
}

/** Returns the intersection over union of two masks, each thresholded at a half. */
export function iou(a: Uint8Array, b: Uint8Array): number {
  let both = 0;
  let either = 0;
  for (let i = 0; i < a.length; i++) {
    const [inA, inB] = [(a[i] as number) > 127, (b[i] as number) > 127];
    if (inA && inB) both++;
    if (inA || inB) either++;
  }
  return both / either;
}
