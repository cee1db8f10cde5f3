import { z } from 'zod';
import type { OnnxSummary } from '../onnx-file.ts';
import { type Contract, fixed, floats, picture, type TensorSpec, type Traits } from './contract.ts';
import { KOKORO } from './kokoro.ts';
import { LIVE_PORTRAIT } from './live-portrait.ts';
import { PIPER } from './piper.ts';
import { RVC } from './rvc.ts';

const share = z.number().min(0).max(1);
const FREE = { free: true } as const;
/** Outputs of detectors. A box may be infinite if its score says that there is no face. */
const CANDIDATES = { free: true, partly: true } as const;
const IMAGENET = { mean: [0.485, 0.456, 0.406], deviation: [0.229, 0.224, 0.225] } as const;
const UNIT = { mean: [0, 0, 0], deviation: [1, 1, 1] } as const;
const SIGNED = { mean: [0.5, 0.5, 0.5], deviation: [0.5, 0.5, 0.5] } as const;
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
  outputs: (size: number) => readonly TensorSpec[],
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
      return { inputs: [floats('input', ['batch', 3, size, size], FREE)], outputs: outputs(size) };
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
    (size) =>
      (['score', 'box', 'points'] as const).flatMap((kind) =>
        STRIDES.map((stride) => {
          const count = 2 * (size / stride) ** 2;
          const width = { score: 1, box: 4, points: 10 }[kind];
          return floats(`${kind}_${stride}`, [count, width], {
            ...CANDIDATES,
            otherwise: [['batch', count, width]],
          });
        }),
      ),
  );
}

function swapper(name: string, size: number, traits: Traits, needs: readonly string[]): Contract {
  return fixed(
    name,
    'swapper',
    { size, ...traits },
    [picture('target', size), floats('source', ['batch', 512])],
    [picture('output', size, FREE)],
    { needs },
  );
}

const ARCFACE = 'arcface_w600k_r50';

function enhancer(name: string, size: number, template: Traits['template'] = 'ffhq_512'): Contract {
  const weight: TensorSpec = { name: 'weight', types: ['float64', 'float32'], dims: [1], optional: true };
  return fixed(
    name,
    'enhancer',
    { size, ...(template ? { template } : {}), ...SIGNED, denormalise: true },
    [picture('input', size), weight],
    [picture('output', size, FREE)],
    {
      options: z.strictObject({ blend: share.default(0.8), weight: share.default(0.5) }),
    },
  );
}

function parser(name: string): Contract {
  const output = floats('output', ['batch', 19, 512, 512], FREE);
  return fixed(name, 'parser', { size: 512, ...IMAGENET }, [picture('input', 512, FREE)], [output]);
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
    {
      needs: [ARCFACE],
    },
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
  ...['inswapper_128', 'inswapper_128_fp16'].map((name) =>
    swapper(name, 128, { template: 'arcface_128', ...UNIT, identity: 'emap' }, [ARCFACE]),
  ),
  ...['hyperswap_1a_256', 'hyperswap_1b_256', 'hyperswap_1c_256'].map((name) =>
    swapper(name, 256, { template: 'arcface_128', ...SIGNED, denormalise: true, identity: 'normalised' }, [
      ARCFACE,
    ]),
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
  ...LIVE_PORTRAIT,
  ...RVC,
  PIPER,
  KOKORO,
];

/** Every contract that a manifest may name. */
export const CONTRACTS: ReadonlyMap<string, Contract> = new Map(
  ALL.map((contract) => [contract.name, contract]),
);
