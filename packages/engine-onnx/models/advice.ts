import { CAPABILITIES } from '@semblance/engine-api/capabilities';
import type { Stage } from '../contracts/contract.ts';
import type { CheckedModel } from '../model-dir.ts';
import { offersOf } from '../offers.ts';

/** Eye distance in a crop of 128 pixels with the template `arcface_128`, in pixels; other sizes in proportion. */
const EYES_IN_128 = 35;

/** Sentences about a model directory for its owner. */
export interface Advice {
  /** What is offered, and with which models. */
  readonly offers: readonly string[];
  /** What is not offered, and which model it needs. */
  readonly missing: readonly string[];
  /** What would make the results better. */
  readonly better: readonly string[];
}

/** Stages of a face swap beside the swapper, and what is done without a model for them. */
const SWAP_PARTS: readonly (readonly [Stage, string])[] = [
  [
    'detector',
    "Faces are found by builtin's detector; scrfd_2.5g or retinaface_10g finds more of the small ones.",
  ],
  [
    'occlusion',
    "What stands before a face is found by builtin's network; xseg_3 follows hair and fingers closer.",
  ],
  ['parser', 'Nothing tells hair from skin; bisenet_resnet_34 keeps a fringe before the new face.'],
];

/** @param models those that fit */
export function adviseOn(models: readonly CheckedModel[]): Advice {
  const byStage = new Map(models.map((model) => [model.contract.stage, model]));
  const stages: ReadonlySet<Stage> = new Set(byStage.keys());
  const offered = offersOf(stages, true);
  const offers = offered.map(({ capability, anyOf, video }) => {
    const used = anyOf.flatMap((stage) => byStage.get(stage)?.name ?? []);
    return `${CAPABILITIES[capability].title} with ${used.join(', ')}${video ? ', where ffmpeg is installed' : ''}.`;
  });
  const swapper = byStage.get('swapper');
  if (swapper) offers.push(`Live Swap Pro with ${swapper.name}.`);
  const voices = models.filter(({ contract }) => contract.stage === 'voice');
  if (voices.length > 0)
    offers.push(
      `Voices of Voice Swap with ${voices.map(({ name }) => name).join(', ')}, once a voice names them.`,
    );
  return { offers, missing: missingOf(stages), better: betterOf(byStage) };
}

function missingOf(stages: ReadonlySet<Stage>): string[] {
  const missing: string[] = [];
  if (!stages.has('swapper')) {
    const swap = stages.has('recogniser') ? '' : ' and arcface_w600k_r50';
    missing.push(
      `Photo Swap, Video Swap and Live Swap Pro warp the face as builtin does; a swapper such as hyperswap_1a_256${swap} draws it.`,
    );
  }
  if (!stages.has('lips'))
    missing.push('Lip Sync is left to builtin; it needs wav2lip_gan_96 or wav2lip_96.');
  if (!stages.has('portrait-generator'))
    missing.push(
      'Motion Transfer is left to builtin; it needs live_portrait_feature_extractor, live_portrait_motion_extractor, live_portrait_stitcher and live_portrait_generator.',
    );
  if (!stages.has('voice'))
    missing.push(
      'Voices of Voice Swap are those of builtin; a voice of your own needs rvc_v2 and contentvec_768.',
    );
  return missing;
}

function betterOf(byStage: ReadonlyMap<Stage, CheckedModel>): string[] {
  const better: string[] = [];
  const swapper = byStage.get('swapper');
  const enhancer = byStage.get('enhancer');
  const size = swapper?.contract.traits.size ?? 0;
  if (swapper && !enhancer)
    better.push(
      `Faces whose eyes are more than ${Math.round((EYES_IN_128 * size) / 128)} pixels apart come out soft, because ${swapper.name} draws ${size} pixels and there is no enhancer such as gfpgan_1.4.`,
    );
  if (swapper) for (const [stage, sentence] of SWAP_PARTS) if (!byStage.has(stage)) better.push(sentence);
  if (byStage.has('lips') && !enhancer)
    better.push('Mouths of Lip Sync are drawn with 96 pixels; an enhancer such as gfpgan_1.4 sharpens them.');
  if (byStage.has('voice') && !byStage.has('voice-pitch'))
    better.push(
      'The pitch of voices is tracked by builtin; rmvpe or fcpe is steadier where the sound is noisy.',
    );
  return better;
}
