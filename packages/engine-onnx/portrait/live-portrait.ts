import type { Picture } from '@semblance/engine-api/picture';
import { type CropTransform, cropRgb, type RgbImage } from '@semblance/vision/picture';
import type { FloatTensor, FloatTensors } from '../sessions/protocol.ts';
import type { Models, OpenModel, StageLog } from '../stages/models.ts';
import { fromPlanes, toPlanes } from '../vision/tensors.ts';
import type { Openness } from './framing.ts';
import { type HeadMotion, KEY_POINTS, keyPointsOf } from './keypoints.ts';

type Points = Float32Array<ArrayBuffer>;

/** Side of input and output pictures, in pixels. */
export const SEEN_SIZE = 256;
export const DRAWN_SIZE = 512;
/**
 * Openness of a still's lips above which they are closed first (`lip_normalize_threshold` of KwaiVGI/LivePortrait).
 */
const LIPS_APART = 0.03;

/** A still as the generator expects it. */
export interface SeenStill {
  readonly features: Points;
  readonly motion: HeadMotion;
  /** Key points of the still in its crop. */
  readonly points: Points;
  readonly openness: Openness | undefined;
  /** Offset that closes the still's lips, added to the key points of every frame. */
  readonly closing: Points | undefined;
}

/** The networks of LivePortrait, one method per step. */
export class LivePortrait {
  readonly #models: Models;
  readonly #log: StageLog;
  readonly #signal: AbortSignal;
  /** Whether a driver's motion is relative to its first frame. */
  readonly relative: boolean;

  constructor(models: Models, log: StageLog, signal: AbortSignal) {
    this.#models = models;
    this.#log = log;
    this.#signal = signal;
    this.relative = models.need('portrait-motion').options.relative !== 0;
  }

  /** @param openness of the still's eyes and lips; undefined without a mesh */
  async seeStill(picture: Picture, crop: CropTransform, openness: Openness | undefined): Promise<SeenStill> {
    const motion = await this.seeMotion(picture, crop);
    const extractor = this.#models.need('portrait-features');
    const features = await this.#run('features', extractor, {
      input: this.#planes(extractor, picture, crop),
    });
    const points = keyPointsOf(motion);
    const closing = openness && (await this.#closing(points, openness));
    return { features: features.data, motion, points, openness, closing };
  }

  async seeMotion(picture: Picture, crop: CropTransform): Promise<HeadMotion> {
    const extractor = this.#models.need('portrait-motion');
    const seen = await this.#log.onnx('motion', extractor, () =>
      extractor.runAll({ input: this.#planes(extractor, picture, crop) }, this.#signal),
    );
    const values = (role: string): Points => (seen[role] as FloatTensor).data;
    const value = (role: string): number => values(role)[0] as number;
    return {
      pitch: value('pitch'),
      yaw: value('yaw'),
      roll: value('roll'),
      scale: value('scale'),
      translation: values('translation'),
      expression: values('expression'),
      points: values('motion_points'),
    };
  }

  /**
   * Returns the offset that gives a still's eyes and lips the driver's openness, if there are retargeters and the
   * driver's motion is absolute. Relative motion already contains it.
   */
  async retarget(still: SeenStill, driver: Openness): Promise<Points | undefined> {
    const { openness, points } = still;
    if (this.relative || !openness) return undefined;
    const [eyes, lips] = await Promise.all([
      this.#retarget('eye_retargeter', 'portrait-eyes', points, [...openness.eyes, driver.eyes[0]]),
      this.#retarget('lip_retargeter', 'portrait-lips', points, [openness.lips, driver.lips]),
    ]);
    return eyes && lips ? eyes.map((value, i) => value + (lips[i] as number)) : (eyes ?? lips);
  }

  /** Draws a still with other key points. */
  async draw(still: SeenStill, wanted: Points): Promise<RgbImage> {
    const stitched = await this.#run('stitcher', this.#models.need('portrait-stitcher'), {
      source: asPoints(wanted),
      target: asPoints(still.points),
    });
    const { closing } = still;
    const moved = closing ? stitched.data.map((value, i) => value + (closing[i] as number)) : stitched.data;
    return this.drawMoved(still, moved);
  }

  /** Draws a still with other key points that need no stitching, because its head does not move. */
  async drawMoved(still: SeenStill, moved: Points): Promise<RgbImage> {
    const generator = this.#models.need('portrait-generator');
    const drawn = await this.#run('generator', generator, {
      // Each frame transfers its buffer, so this is a copy.
      feature_volume: { data: still.features.slice(), dims: [1, 32, 16, 64, 64] },
      source: asPoints(moved),
      target: asPoints(still.points),
    });
    return fromPlanes(drawn, generator.traits);
  }

  async #closing(points: Points, { lips }: Openness): Promise<Points | undefined> {
    const retargeter = this.#models.get('portrait-lips');
    const share = retargeter?.options.close ?? 0;
    if (!this.relative || share === 0 || lips < LIPS_APART) return undefined;
    const delta = await this.#retarget('lip_retargeter', 'portrait-lips', points, [lips, 0]);
    return delta?.map((value) => share * value);
  }

  async #retarget(
    name: string,
    stage: 'portrait-eyes' | 'portrait-lips',
    points: Points,
    ratios: readonly number[],
  ): Promise<Points | undefined> {
    const retargeter = this.#models.get(stage);
    if (!retargeter) return undefined;
    const data = Float32Array.from([...points, ...ratios]);
    const { data: delta } = await this.#run(name, retargeter, { input: { data, dims: [1, data.length] } });
    return delta;
  }

  #run(name: string, model: OpenModel, feeds: FloatTensors): Promise<FloatTensor> {
    return this.#log.onnx(name, model, () => model.run(feeds, this.#signal));
  }

  #planes({ traits }: OpenModel, picture: Picture, crop: CropTransform): FloatTensor {
    return toPlanes(cropRgb(picture, crop, SEEN_SIZE, SEEN_SIZE), traits);
  }
}

/** Returns a copy, because the input of a model is transferred. */
function asPoints(points: Float32Array): FloatTensor {
  return { data: Float32Array.from(points), dims: [1, KEY_POINTS, 3] };
}
