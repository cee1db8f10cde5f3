import type { Picture } from '@semblance/engine-api/picture';
import { type Point, toPicture } from '@semblance/vision/picture';
import { PLAIN_WEIGHT } from './contracts/swappers.ts';
import { withinDrawn } from './face-masks.ts';
import type { PlacedFace } from './face-places.ts';
import { restoreExpression, seeExpression } from './portrait/expression.ts';
import type { HeadMotion } from './portrait/keypoints.ts';
import { LivePortrait } from './portrait/live-portrait.ts';
import type { FloatTensor } from './sessions/protocol.ts';
import {
  averaged,
  balanced,
  embed,
  identityFor,
  isConverted,
  readEmap,
  sourcePicture,
} from './stages/identity.ts';
import type { Models, OpenModel, StageLog } from './stages/models.ts';
import { drawSwapped } from './stages/swapper.ts';
import { withinEdge } from './vision/face-mask.ts';
import { type KeptGrain, keepGrain, restoreGrain } from './vision/match-grain.ts';
import { matchedLight } from './vision/match-light.ts';
import { type PasteMask, pasteBack, shareAt } from './vision/paste.ts';

/** A source's face in the form that each swapper expects. */
export type Sources = ReadonlyMap<OpenModel, FloatTensor>;

/** A face in a further picture of the same person. */
export interface FurtherFace {
  readonly picture: Picture;
  readonly five: readonly Point[];
}

/** A face that is being changed. */
export interface WorkFace {
  readonly face: PlacedFace;
  /** The model that swaps it; undefined: `builtin` does. */
  readonly swapper: OpenModel | undefined;
  /** Where it may be changed. */
  readonly mask: PasteMask;
  /** What is kept of the face as it was. */
  readonly grain: KeptGrain | undefined;
  readonly motion: HeadMotion | undefined;
}

/** Swaps faces by the owner's swappers, each face by the first that fits its size. */
export class ModelSwap {
  readonly #models: Models;
  readonly #emaps: ReadonlyMap<OpenModel, Float32Array>;

  constructor(models: Models) {
    this.#models = models;
    this.#emaps = new Map(
      models.all('swapper').flatMap((swapper) => {
        const emap = readEmap(swapper);
        return emap ? [[swapper, emap] as const] : [];
      }),
    );
  }

  /**
   * Returns a face of a picture in the form that each swapper expects. Swappers that take a picture get this one; the
   * embedding of the others is averaged with those of further pictures of the person.
   */
  async sourcesOf(
    picture: Picture,
    five: readonly Point[],
    signal: AbortSignal,
    log: StageLog,
    further: readonly FurtherFace[] = [],
  ): Promise<Sources> {
    const swappers = this.#models.all('swapper');
    const asked = swappers.some(({ traits: { identity } }) => identity !== 'picture' && identity !== 'own');
    const embeddings: Float32Array[] = [];
    for (const one of asked ? [{ picture, five }, ...further] : [])
      embeddings.push(await this.#embed(one.picture, one.five, signal, log));
    const embedding = averaged(embeddings);
    const sources = new Map<OpenModel, FloatTensor>();
    for (const swapper of swappers) {
      if (swapper.traits.identity === 'own') continue;
      const emap = this.#emaps.get(swapper);
      const source =
        swapper.traits.identity === 'picture'
          ? sourcePicture(swapper, picture, five)
          : await identityFor(this.#models, swapper, embedding, emap, signal, log);
      sources.set(swapper, source);
    }
    return sources;
  }

  /** Keeps what is needed of a face before anything is changed. */
  async keep(
    picture: Picture,
    work: Pick<WorkFace, 'face' | 'swapper' | 'mask'>,
    signal: AbortSignal,
    log: StageLog,
  ): Promise<WorkFace> {
    const { face, swapper, mask } = work;
    const { match = 0, expression = 0 } = swapper?.options ?? {};
    const { mesh, five } = face;
    const portrait = expression > 0 ? new LivePortrait(this.#models, log, signal) : undefined;
    return {
      ...work,
      grain: mesh && match > 0 ? keepGrain(picture, mesh, mask) : undefined,
      motion: portrait && (await seeExpression(portrait, picture, five)),
    };
  }

  /** Swaps faces in place. @returns the faces, with where each was changed */
  async swap(
    picture: Picture,
    works: readonly WorkFace[],
    sources: Sources,
    signal: AbortSignal,
    log: StageLog,
  ): Promise<readonly WorkFace[]> {
    // All faces run at once, so that a model with a batch takes them in one run.
    const drawn = await Promise.all(
      works.map(async ({ face: { five }, swapper, mask }) => {
        if (!swapper) throw new Error('there is no swapper');
        const source = sources.get(swapper);
        const aimed = source && (await this.#aimed(swapper, source, picture, five, signal, log));
        const crop = await log.onnx('swapper', swapper, () =>
          drawSwapped(swapper, picture, five, aimed, signal),
        );
        log.identity(swapper);
        // With several swappers there may be a converter for one that no face gets.
        if (isConverted(swapper)) log.uses('converter', this.#models.needed('converter', swapper.model));
        return { crop, mask: await withinDrawn(this.#models, swapper, mask, crop, signal, log) };
      }),
    );
    await log.own('paste', () => {
      for (const [i, { crop: one, mask }] of drawn.entries()) {
        signal.throwIfAborted();
        const { transform, crop, base } = one;
        const { face, swapper } = works[i] as WorkFace;
        const lit = matchedLight(
          crop,
          base,
          (x, y) => shareAt(mask, toPicture(transform, x, y)),
          swapper?.options.match ?? 0,
        );
        pasteBack(picture, lit, transform, withinEdge(mask, transform, crop.width), face.opacity);
      }
    });
    return works.map((work, i) => ({ ...work, mask: drawn[i]?.mask ?? work.mask }));
  }

  /** Puts back the expression that faces had, in place, as far as the option of each one's swapper says. */
  async restoreExpressions(
    picture: Picture,
    works: readonly WorkFace[],
    signal: AbortSignal,
    log: StageLog,
  ): Promise<void> {
    for (const { face, swapper, mask, motion } of works) {
      if (!motion) continue;
      const portrait = new LivePortrait(this.#models, log, signal);
      const share = swapper?.options.expression ?? 0;
      const { transform, crop } = await restoreExpression(portrait, picture, face.five, motion, share);
      const edged = withinEdge(mask, transform, crop.width);
      await log.own('paste', () => pasteBack(picture, crop, transform, edged, face.opacity));
    }
  }

  /** Gives faces the grain of their picture, in place. */
  async restoreGrain(picture: Picture, works: readonly WorkFace[], log: StageLog): Promise<void> {
    await log.own('paste', () => {
      for (const { face, swapper, mask, grain } of works) {
        const { mesh, opacity = 1 } = face;
        const { match = 0 } = swapper?.options ?? {};
        if (mesh && grain) restoreGrain(picture, mesh, mask, grain, match * opacity);
      }
    });
  }

  /** Returns an identity, moved towards the target's face or away from it, as the option `weight` says. */
  async #aimed(
    { options, traits }: OpenModel,
    source: FloatTensor,
    picture: Picture,
    five: readonly Point[],
    signal: AbortSignal,
    log: StageLog,
  ): Promise<FloatTensor> {
    const { weight = PLAIN_WEIGHT } = options;
    if (weight === PLAIN_WEIGHT) return source;
    return balanced(source, await this.#embed(picture, five, signal, log), weight, traits.identity);
  }

  #embed(
    picture: Picture,
    five: readonly Point[],
    signal: AbortSignal,
    log: StageLog,
  ): Promise<Float32Array> {
    const recogniser = this.#models.need('recogniser');
    return log.onnx('recogniser', recogniser, () => embed(recogniser, picture, five, signal));
  }
}
