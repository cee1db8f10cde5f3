import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pythonEnv } from './python-env.ts';

/** Stands for torch and diffusers where these are not installed (diffusers_library). */
const LIBRARY = join(import.meta.dirname, 'diffusers_library');

export interface DiffusersSettings {
  devices: unknown;
  capabilities: Record<string, Record<string, unknown>>;
  /** Settings beside these. */
  more: Record<string, unknown>;
}

/** Writes weights that the library takes: a folder with a model, a LoRA, and a folder with pickled weights. */
async function writeWeights(dir: string): Promise<void> {
  for (const [folder, file] of [
    ['weights', 'model.safetensors'],
    ['pickled', 'model.bin'],
  ] as const) {
    await mkdir(join(dir, folder), { recursive: true });
    await writeFile(join(dir, folder, 'model_index.json'), '{}');
    await writeFile(join(dir, folder, file), folder);
  }
  for (const lora of ['swap.safetensors', 'broken.safetensors', 'swap.bin'])
    await writeFile(join(dir, lora), lora);
}

/** Settings for Photo Swap, Video Swap and Lip Sync; `change` may spoil them before they are written. */
export async function writeDiffusersSettings(
  dir: string,
  change: (settings: DiffusersSettings) => void = () => {},
): Promise<string> {
  const weights = { folder: 'weights', licence: 'OpenRAIL++-M', name: 'tiny' };
  const video = { pipeline: 'TrialVideoPipeline', weights, memory_mib: 16 };
  const settings: DiffusersSettings = {
    devices: ['cpu'],
    capabilities: {
      'face-swap-image': {
        pipeline: 'TrialImg2ImgPipeline',
        weights,
        dtype: 'float16',
        memory_mib: 16,
        loras: [{ file: 'swap.safetensors', licence: 'MIT', scale: 0.5 }],
        memory: { vae_tiling: true },
        inputs: { image: 'image', face: 'face_image' },
        measures: { width: 'width', height: 'height' },
        parameters: {
          mode: 'prompt',
          steps: { argument: 'num_inference_steps', values: { few: 4 } },
        },
        arguments: { num_inference_steps: 8, guidance_scale: 2.5, negative_prompt: 'blurred' },
        seed: 7,
        size: { pixels: 40_000, multiple: 16 },
        refusals: [{ contains: 'no face', code: 'face_not_detected', message: 'There is no face.' }],
      },
      'face-swap': {
        ...video,
        inputs: { video: 'video', face: 'image' },
        measures: { frames: 'num_frames', rate: 'fps' },
        parameters: { mode: 'prompt' },
        frames: { most: 61, step: 4 },
      },
      'lip-sync': {
        ...video,
        inputs: { video: 'video', audio: { argument: 'audio', rate: 8_000 } },
        frames: { most: 61 },
      },
    },
    more: {},
  };
  change(settings);
  const { more, ...rest } = settings;
  await mkdir(dir, { recursive: true });
  await writeWeights(dir);
  const path = join(dir, 'settings.yaml');
  await writeFile(path, JSON.stringify({ ...rest, ...more }));
  return path;
}

/** Returns the command that starts the sidecar, on a machine with so many cards, with the library instead of diffusers. */
export async function diffusersCommand(settings: string, cards = 0): Promise<string[]> {
  const variables = [
    `SEMBLANCE_DIFFUSERS_SETTINGS=${settings}`,
    `PYTHONPATH=${LIBRARY}`,
    'PYTHONDONTWRITEBYTECODE=1',
    `TRIAL_LOG=${settings}.log`,
    `TRIAL_CARDS=${cards}`,
  ];
  return ['env', ...variables, await pythonEnv(), '-m', 'semblance_sidecars.diffusers'];
}

/** Returns what the library was told, such as `call`, with its arguments. */
export async function toldToDiffusers(
  settings: string,
  what: string,
): Promise<readonly Record<string, unknown>[]> {
  const lines = (await readFile(`${settings}.log`, 'utf8').catch(() => '')).split('\n').filter(Boolean);
  return lines
    .map((line) => JSON.parse(line) as [string, Record<string, unknown>])
    .filter(([of]) => of === what)
    .map(([, said]) => said);
}
