import { z } from 'zod';
import type { OnnxSummary } from '../onnx-file.ts';
import {
  type Contract,
  type Dim,
  FACE_SIZE,
  fixed,
  floats,
  IMAGENET,
  picture,
  SIGNED,
  type Stage,
  share,
  type Traits,
  UNIT,
  withSomeFace,
} from './contract.ts';

export const ARCFACE = 'arcface_w600k_r50';
/** Largest side of a crop that a swapper draws in parts, as in FaceFusion's `face_swapper/choices.py`. */
export const MOST_BOOST = 1024;
/** The value of `weight` that leaves an identity as it is. */
export const PLAIN_WEIGHT = 0.5;

/** Options of every swapper. */
const COMMON = {
  mask: z.enum(['oval', 'box', 'parser']).default('oval'),
  /** How far light and grain are matched to the picture. */
  match: share.default(1),
  /** Share of the face's own expression that is put back. */
  expression: share.default(0),
  ...FACE_SIZE,
} as const;

/** Options of every swapper whose input has this size. */
function common(size: number) {
  return {
    ...COMMON,
    /** Side of the crop, which the network draws in interleaved parts. */
    boost: z
      .union([z.literal('auto'), z.number().int().min(size).max(MOST_BOOST).multipleOf(size)])
      .default(size),
  };
}

function needsStages({ mask, expression }: Readonly<Record<string, number | string>>): readonly Stage[] {
  return [
    ...(mask === 'parser' ? (['parser'] as const) : []),
    ...(expression === 0 ? [] : (['portrait-generator'] as const)),
  ];
}

/** Returns a swapper whose `source` is an embedding in a form of its own. */
function swapper(name: string, size: number, traits: Traits, needs: readonly string[] = [ARCFACE]): Contract {
  const options = { ...common(size), weight: share.default(PLAIN_WEIGHT) };
  return fixed(
    name,
    'swapper',
    { size, ...traits },
    [picture('target', size), floats('source', ['batch', 512])],
    [picture('output', size, { free: true })],
    {
      needs,
      needsStages,
      several: 'by-size',
      options:
        traits.identity === 'emap'
          ? withSomeFace(
              z.strictObject({
                ...options,
                latent_norm: z.enum(['embedding', 'projected']).default('embedding'),
              }),
            )
          : withSomeFace(z.strictObject(options)),
    },
  );
}

/** Returns a swapper whose `source` is a crop of the source's face. */
function fromPicture(name: string, traits: Traits, source: NonNullable<Traits['source']>): Contract {
  const dims: readonly Dim[] = ['batch', 3, source.size, source.size];
  return fixed(
    name,
    'swapper',
    { size: 256, template: 'ffhq_512', identity: 'picture', source, ...traits },
    [picture('target', 256), floats('source', dims)],
    [picture('output', 256, { free: true })],
    { needsStages, several: 'by-size', options: withSomeFace(z.strictObject(common(256))) },
  );
}

/** Returns the side of the crop of a DeepFaceLab model: as its file fixes it, otherwise 224 pixels. */
export function dfmSize(found: OnnxSummary): number {
  const side = found.inputs[0]?.dims?.[1];
  return typeof side === 'number' ? side : 224;
}

/**
 * A face trained with DeepFaceLab and exported as DFM, for DeepFaceLive and FaceFusion's `deep_swapper/core.py`: blue
 * first, channels last; out come the mask of the target's face, the new face and its mask. Some files also take how
 * far the face is the new one.
 */
const DFM: Contract = {
  name: 'dfm',
  stage: 'swapper',
  several: 'by-size',
  traits: { template: 'dfl_whole_face', ...UNIT, order: 'bgr', identity: 'own' },
  options: withSomeFace(z.strictObject({ ...COMMON, morph: share.default(1) })),
  needsStages,
  tensors(_, found) {
    const side = dfmSize(found);
    const plane = (name: string, channels: number) =>
      floats(name, ['batch', side, side, channels], { free: true });
    return {
      inputs: [plane('face', 3), floats('morph', [1], { free: true, optional: true, otherwise: [[]] })],
      outputs: [plane('target_mask', 1), plane('face', 3), plane('face_mask', 1)],
    };
  },
};

/** Sizes, templates and scales are those of FaceFusion's `processors/modules/face_swapper/core.py`. */
export const SWAPPERS: readonly Contract[] = [
  ...['inswapper_128', 'inswapper_128_fp16'].map((name) =>
    swapper(name, 128, { template: 'arcface_128', ...UNIT, identity: 'emap' }),
  ),
  ...['hyperswap_1a_256', 'hyperswap_1b_256', 'hyperswap_1c_256'].map((name) =>
    swapper(name, 256, { template: 'arcface_128', ...SIGNED, denormalise: true, identity: 'normalised' }),
  ),
  ...['ghost_1_256', 'ghost_2_256', 'ghost_3_256'].map((name) =>
    swapper(name, 256, { template: 'arcface_112_v1', ...SIGNED, denormalise: true, identity: 'converted' }, [
      ARCFACE,
      'crossface_ghost',
    ]),
  ),
  swapper(
    'hififace_unofficial_256',
    256,
    { template: 'mtcnn_512', ...SIGNED, denormalise: true, identity: 'converted-normalised' },
    [ARCFACE, 'crossface_hififace'],
  ),
  swapper('simswap_256', 256, { template: 'arcface_112_v1', ...IMAGENET, identity: 'converted-normalised' }, [
    ARCFACE,
    'crossface_simswap',
  ]),
  swapper(
    'simswap_unofficial_512',
    512,
    { template: 'arcface_112_v1', ...UNIT, identity: 'converted-normalised' },
    [ARCFACE, 'crossface_simswap'],
  ),
  fromPicture('blendswap_256', UNIT, { size: 112, template: 'arcface_112_v2' }),
  fromPicture('uniface_256', { ...SIGNED, denormalise: true }, { size: 256, template: 'ffhq_512' }),
  DFM,
];
