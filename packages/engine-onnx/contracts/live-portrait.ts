import { z } from 'zod';
import { type Contract, type Dim, fixed, floats, picture, type TensorSpec } from './contract.ts';

/**
 * LivePortrait (Guo et al. 2024, "LivePortrait: Efficient Portrait Animation with Stitching and Retargeting
 * Control", KwaiVGI/LivePortrait) as FaceFusion exports it, in six files. Known facts:
 *
 * - Pictures are 256², RGB, 0–1 (`prepare_crop_frame` in FaceFusion's `processors/modules/face_editor.py`).
 * - The motion extractor yields, in this order, pitch, yaw and roll in degrees, scale, translation, expression and
 *   key points (`forward_extract_motion` there). Pitch, yaw and roll have no dimension in FaceFusion's file: its
 *   `create_rotation` passes them to SciPy unchanged, which accepts nothing else, and ports of it note the same.
 * - In generator and stitcher `target` is the face in the picture and `source` the wanted one (`apply_edit` there,
 *   `apply_restore` in `expression_restorer.py`). This is the order of LivePortrait's own warping network, whose
 *   arguments are the volume, the driving and then the source's key points.
 * - The stitcher yields the wanted key points with its correction added. In LivePortrait's own code it takes 126
 *   numbers and gives 65: 63 to add, and a shift in x and y.
 */
const SIZE = 256;
const PLAIN = { mean: [0, 0, 0], deviation: [1, 1, 1], order: 'rgb' } as const;
const FREE = { free: true } as const;
const POINTS: readonly Dim[] = ['batch', 21, 3];
const VOLUME: readonly Dim[] = ['batch', 32, 16, 64, 64];

const FEATURES = 'live_portrait_feature_extractor';
const MOTION = 'live_portrait_motion_extractor';
const GENERATOR = 'live_portrait_generator';
const STITCHER = 'live_portrait_stitcher';
/** Contracts that are all needed to draw anything. */
const NEEDED = [FEATURES, MOTION, GENERATOR, STITCHER] as const;

const others = (name: string): readonly string[] => NEEDED.filter((other) => other !== name);
const angle = (name: string): TensorSpec =>
  floats(name, ['batch', 1], { ...FREE, otherwise: [['batch'], []] });

function retargeter(
  name: string,
  stage: 'portrait-eyes' | 'portrait-lips',
  ratios: number,
  options?: Contract['options'],
): Contract {
  return fixed(
    name,
    stage,
    {},
    [floats('input', ['batch', 63 + ratios])],
    [floats('output', ['batch', 63], { ...FREE, otherwise: [POINTS] })],
    { needs: NEEDED, ...(options ? { options } : {}) },
  );
}

export const LIVE_PORTRAIT: readonly Contract[] = [
  fixed(
    FEATURES,
    'portrait-features',
    { size: SIZE, ...PLAIN },
    [picture('input', SIZE)],
    [floats('feature_volume', VOLUME, FREE)],
    { needs: others(FEATURES) },
  ),
  fixed(
    MOTION,
    'portrait-motion',
    { size: SIZE, ...PLAIN },
    [picture('input', SIZE)],
    [
      ...['pitch', 'yaw', 'roll'].map(angle),
      floats('scale', ['batch', 1], { ...FREE, otherwise: [['batch'], [], ['batch', 1, 1]] }),
      floats('translation', ['batch', 3], { ...FREE, otherwise: [['batch', 1, 3]] }),
      floats('expression', POINTS, FREE),
      floats('motion_points', POINTS, FREE),
    ],
    {
      needs: others(MOTION),
      options: z.strictObject({ relative: z.union([z.literal(0), z.literal(1)]).default(1) }),
    },
  ),
  fixed(
    GENERATOR,
    'portrait-generator',
    { size: 2 * SIZE, ...PLAIN },
    [floats('feature_volume', VOLUME), floats('source', POINTS), floats('target', POINTS)],
    [picture('output', 2 * SIZE, FREE)],
    { needs: others(GENERATOR) },
  ),
  fixed(
    STITCHER,
    'portrait-stitcher',
    {},
    [floats('source', POINTS), floats('target', POINTS)],
    [floats('output', POINTS, FREE)],
    { needs: others(STITCHER) },
  ),
  retargeter('live_portrait_eye_retargeter', 'portrait-eyes', 3),
  retargeter(
    'live_portrait_lip_retargeter',
    'portrait-lips',
    2,
    // LivePortrait's command line leaves a still's lips as they are (`flag_normalize_lip = False` in its
    // `src/config/argument_config.py`): after closing them, a driver that begins with a smile pulls them awry.
    z.strictObject({ close: z.number().min(0).max(1).default(0) }),
  ),
];
