import type { Capability } from '@semblance/engine-api/capabilities';
import type { EngineOption, RenderOptions } from '@semblance/engine-api/option';
import type { Stage } from './contracts/contract.ts';
import type { CheckedModel } from './model-dir.ts';
import type { Models } from './stages/models.ts';

/** An option of a render that stands for an option of models in the manifest. */
interface ModelOption {
  readonly name: string;
  readonly stage: Stage;
  /** Name in the manifest. */
  readonly option: string;
  readonly type: 'number' | 'boolean';
  readonly capabilities: readonly Capability[];
  /** Input that the model must have for it. */
  readonly input?: string;
  /** Stage that must have a model too. */
  readonly beside?: Stage;
  readonly description: string;
}

const SWAPS: readonly Capability[] = ['face-swap-image', 'face-swap'];
/** Capabilities whose faces an enhancer restores. */
const ENHANCED: readonly Capability[] = [...SWAPS, 'lip-sync', 'motion-control'];
const ENHANCER = 'enhancer';

const MODEL_OPTIONS: readonly ModelOption[] = [
  {
    name: 'weight',
    stage: 'swapper',
    option: 'weight',
    type: 'number',
    capabilities: SWAPS,
    description: "Whose identity the new face has: below 0.5 closer to the target's, above it further away.",
  },
  {
    name: 'match',
    stage: 'swapper',
    option: 'match',
    type: 'number',
    capabilities: SWAPS,
    description: 'How far light and grain of the new face follow the picture.',
  },
  {
    name: 'expression',
    stage: 'swapper',
    option: 'expression',
    type: 'number',
    capabilities: SWAPS,
    beside: 'portrait-generator',
    description: "Share of the target's own expression that is put back.",
  },
  {
    name: 'morph',
    stage: 'swapper',
    option: 'morph',
    input: 'morph',
    type: 'number',
    capabilities: SWAPS,
    description: 'How far a face of DeepFaceLab takes the place of the target.',
  },
  {
    name: 'enhancer_blend',
    stage: 'enhancer',
    option: 'blend',
    type: 'number',
    capabilities: ENHANCED,
    description: 'Share of the restored face in the output.',
  },
  {
    name: 'enhancer_weight',
    stage: 'enhancer',
    option: 'weight',
    input: 'weight',
    type: 'number',
    capabilities: ENHANCED,
    description: 'How closely the enhancer keeps to the face before it: from 0, the most detail, to 1.',
  },
  {
    name: 'relative',
    stage: 'portrait-motion',
    option: 'relative',
    type: 'boolean',
    capabilities: ['motion-control'],
    description: "Whether the still moves by the driver's changes, and not into its poses.",
  },
  {
    name: 'close',
    stage: 'portrait-lips',
    option: 'close',
    type: 'number',
    capabilities: ['motion-control'],
    description: 'How far open lips of the still are closed before it moves.',
  },
];

/** Returns what a render of a capability may be told with these models. */
export function optionsFor(capability: Capability, models: readonly CheckedModel[]): readonly EngineOption[] {
  const of = (stage: Stage) => models.filter(({ contract }) => contract.stage === stage);
  const found = MODEL_OPTIONS.flatMap((one): EngineOption[] => {
    const { name, stage, option, type, capabilities, input, beside, description } = one;
    const values = of(stage)
      .filter(({ inputs }) => input === undefined || inputs.some(({ role }) => role === input))
      .flatMap(({ options }) => options[option] ?? []);
    const lacks = beside !== undefined && of(beside).length === 0;
    if (!capabilities.includes(capability) || values.length === 0 || lacks) return [];
    // Models that differ have no common default.
    const [own] = new Set(values).size === 1 ? values : [];
    const text = own === undefined ? undefined : type === 'boolean' ? String(own !== 0) : String(own);
    return [
      {
        name,
        type,
        ...(type === 'number' ? { minimum: 0, maximum: 1 } : {}),
        ...(text === undefined ? {} : { default: text }),
        description,
      },
    ];
  });
  if (!ENHANCED.includes(capability) || of(ENHANCER).length === 0) return found;
  const description = 'Whether faces are restored by the enhancer.';
  return [...found, { name: ENHANCER, type: 'boolean', default: 'true', description }];
}

/** Returns models as a render with these options uses them: with other values, or without the enhancer. */
export function withRenderOptions(models: Models, options: RenderOptions = {}): Models {
  const changed = MODEL_OPTIONS.filter(({ name }) => options[name] !== undefined);
  const without = options[ENHANCER] === false;
  if (changed.length === 0 && !without) return models;
  return models.changed((model, stage) => {
    if (without && stage === ENHANCER) return undefined;
    const values = changed
      .filter((one) => one.stage === stage && model.options[one.option] !== undefined)
      .map(({ name, option }) => [option, Number(options[name])] as const);
    return values.length === 0
      ? model
      : { ...model, options: { ...model.options, ...Object.fromEntries(values) } };
  });
}
