import { z } from 'zod';
import type { OnnxSummary } from '../onnx-file.ts';
import { PARSER_CLASSES } from '../stages/class-graph.ts';
import {
  type Contract,
  FACE_SIZE,
  fixed,
  floats,
  IMAGENET,
  picture,
  SIGNED,
  share,
  type TensorSpec,
  type Traits,
  UNIT,
  withSomeFace,
} from './contract.ts';
import { KOKORO } from './kokoro.ts';
import { LIVE_PORTRAIT } from './live-portrait.ts';
import { PIPER } from './piper.ts';
import { RVC } from './rvc.ts';
import { ARCFACE, SWAPPERS } from './swappers.ts';

const FREE = { free: true } as const;
/** Outputs of detectors. A box may be infinite if its score says that there is no face. */
const CANDIDATES = { free: true, partly: true } as const;
export const STRIDES = [8, 16, 32] as const;

/**
 * Returns the side of a detector's input: from the options, otherwise as the model fixes it, otherwise 640 pixels.
 */
export function detectorSize(options: Readonly<Record<string, number>>, found: OnnxSummary): number {
  const side = found.inputs[0]?.dims?.[2];
  return options.size ?? (typeof side === 'number' ? side : 640);
}

function detector(
  name: string,
  traits: Traits,
  score: number,
  outputs: (size: number, open: boolean) => readonly TensorSpec[],
): Contract {
  return {
    name,
    stage: 'detector',
    traits,
    options: z.strictObject({
      size: z.number().int().min(128).max(2048).multipleOf(32).optional(),
      score: share.default(score),
    }) as unknown as Contract['options'],
    tensors(options, found) {
      const size = detectorSize(options, found);
      const open = typeof found.inputs[0]?.dims?.[2] === 'string';
      return { inputs: [floats('input', ['batch', 3, size, size], FREE)], outputs: outputs(size, open) };
    },
  };
}

/**
 * Scores, boxes and key points of each stride. Exports of the same network differ in whether they keep the batch.
 *
 * The channel order is RGB, scaled by (value − 127.5) / 128. InsightFace trains SCRFD so (`to_rgb=True`, `mean`
 * 127.5, `std` 128 in `detection/scrfd/configs/scrfd/scrfd_2.5g_bnkps.py`). Its own package feeds both networks so
 * (`swapRB=True` on OpenCV's BGR pictures in `python-package/insightface/model_zoo/scrfd.py` and `retinaface.py`).
 * FaceFusion's `face_detector.py` scales in the same way but keeps BGR, as `cv2.imread` gives it.
 */
function anchored(name: string): Contract {
  return detector(
    name,
    {
      mean: [127.5 / 255, 127.5 / 255, 127.5 / 255],
      deviation: [128 / 255, 128 / 255, 128 / 255],
      order: 'rgb',
    },
    0.5,
    (size, open) =>
      (['score', 'box', 'points'] as const).flatMap((kind) =>
        STRIDES.map((stride) => {
          const many = 2 * (size / stride) ** 2;
          // InsightFace's files declare the numbers for 640 pixels, though the net takes other sizes too.
          const count = open ? { ran: many } : many;
          const width = { score: 1, box: 4, points: 10 }[kind];
          return floats(`${kind}_${stride}`, [count, width], {
            ...CANDIDATES,
            otherwise: [['batch', count, width]],
          });
        }),
      ),
  );
}

function enhancer(name: string, size: number, template: Traits['template'] = 'ffhq_512'): Contract {
  const weight: TensorSpec = {
    name: 'weight',
    types: ['float64', 'float32'],
    dims: [1],
    otherwise: [[]],
    optional: true,
  };
  return fixed(
    name,
    'enhancer',
    { size, ...(template ? { template } : {}), ...SIGNED, denormalise: true },
    [picture('input', size, FREE), weight],
    [picture('output', size, FREE)],
    {
      several: 'by-size',
      options: withSomeFace(
        z.strictObject({ blend: share.default(0.8), weight: share.default(0.5), ...FACE_SIZE }),
      ),
    },
  );
}

function parser(name: string): Contract {
  const output = floats('output', ['batch', PARSER_CLASSES, 512, 512], FREE);
  return {
    ...fixed(name, 'parser', { size: 512, ...IMAGENET }, [picture('input', 512, FREE)], [output]),
    edit: 'classes',
  };
}

function occluder(name: string): Contract {
  return fixed(
    name,
    'occlusion',
    { size: 256, ...UNIT, order: 'bgr' },
    [floats('input', ['batch', 256, 256, 3], FREE)],
    [floats('output', ['batch', 256, 256, 1], FREE)],
  );
}

function converter(name: string): Contract {
  return fixed(
    name,
    'converter',
    {},
    [floats('input', ['batch', 512], FREE)],
    [floats('output', ['batch', 512], FREE)],
    { needs: [ARCFACE], several: 'by-contract' },
  );
}

function lips(name: string): Contract {
  return fixed(
    name,
    'lips',
    { size: 96, ...UNIT, order: 'bgr' },
    [floats('source', ['batch', 1, 80, 16]), floats('target', ['batch', 6, 96, 96])],
    [floats('output', ['batch', 3, 96, 96], FREE)],
  );
}

/**
 * EDTalk (Tan et al. 2024) as FaceFusion exports it: the whole face in red, green and blue, and how far its mouth
 * follows the sound (`forward_edtalk` in `processors/modules/lip_syncer/core.py`).
 */
const EDTALK = fixed(
  'edtalk_256',
  'lips',
  { size: 256, template: 'ffhq_512', ...UNIT },
  [
    floats('source', ['batch', 1, 80, 16]),
    picture('target', 256),
    floats('weight', [1], { otherwise: [[]] }),
  ],
  [picture('output', 256, FREE)],
  { options: z.strictObject({ weight: share.default(0.5) }) },
);

const ALL: readonly Contract[] = [
  anchored('scrfd_2.5g'),
  anchored('retinaface_10g'),
  detector('yoloface_8n', UNIT, 0.5, (size) => {
    const count = STRIDES.reduce((sum, stride) => sum + (size / stride) ** 2, 0);
    return [floats('faces', ['batch', 20, count], CANDIDATES)];
  }),
  detector(
    'yunet_2023_mar',
    { mean: [0, 0, 0], deviation: [1 / 255, 1 / 255, 1 / 255], order: 'bgr' },
    0.7,
    (size) =>
      (['cls', 'obj', 'bbox', 'kps'] as const).flatMap((kind) =>
        STRIDES.map((stride) => {
          const width = { cls: 1, obj: 1, bbox: 4, kps: 10 }[kind];
          return floats(`${kind}_${stride}`, ['batch', (size / stride) ** 2, width], CANDIDATES);
        }),
      ),
  ),
  // The channel order is RGB, scaled by value / 255, as the network's author feeds it: `face_alignment/api.py` of
  // 1adrianb/face-alignment reads by scikit-image, which gives RGB, and divides by 255. FaceFusion's
  // `face_landmarker.py` keeps BGR.
  fixed(
    '2dfan4',
    'landmarks',
    { size: 256, ...UNIT, order: 'rgb' },
    [picture('input', 256, FREE)],
    [floats('points', ['batch', 68, 3], FREE), floats('heatmaps', ['batch', 68, 64, 64], FREE)],
    { options: z.strictObject({ score: share.default(0.5) }) },
  ),
  fixed(
    ARCFACE,
    'recogniser',
    { size: 112, template: 'arcface_112_v2', ...SIGNED },
    [picture('input', 112, FREE)],
    [floats('embedding', ['batch', 512], FREE)],
  ),
  ...SWAPPERS,
  ...['crossface_ghost', 'crossface_hififace', 'crossface_simswap'].map(converter),
  ...['gfpgan_1.2', 'gfpgan_1.3', 'gfpgan_1.4', 'codeformer', 'restoreformer_plus_plus', 'gpen_bfr_512'].map(
    (name) => enhancer(name, 512),
  ),
  enhancer('gpen_bfr_256', 256, 'arcface_128'),
  enhancer('gpen_bfr_1024', 1024),
  enhancer('gpen_bfr_2048', 2048),
  ...['xseg_1', 'xseg_2', 'xseg_3'].map(occluder),
  ...['bisenet_resnet_18', 'bisenet_resnet_34'].map(parser),
  ...['wav2lip_96', 'wav2lip_gan_96'].map(lips),
  EDTALK,
  ...LIVE_PORTRAIT,
  ...RVC,
  PIPER,
  KOKORO,
];

/** Names of InsightFace's packages for files that a contract with another name describes. */
const ALIASES: Readonly<Record<string, string>> = { det_10g: 'retinaface_10g', det_500m: 'scrfd_2.5g' };

const BY_NAME = new Map(ALL.map((contract) => [contract.name, contract]));

/** Every contract that a manifest may name, also by the names of {@link ALIASES}. */
export const CONTRACTS: ReadonlyMap<string, Contract> = new Map([
  ...BY_NAME,
  ...Object.entries(ALIASES).map(([alias, name]) => [alias, BY_NAME.get(name) as Contract] as const),
]);
