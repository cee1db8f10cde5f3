import { nvidiaDevices } from '@semblance/engine-api/device-fault';
import { z } from 'zod';
import { PROVIDERS } from './sessions/protocol.ts';

const providers = z
  .string()
  .transform((text) => text.split(',').map((name) => name.trim()))
  .pipe(z.array(z.enum(PROVIDERS)).min(1))
  .refine((names) => new Set(names).size === names.length, 'names an execution provider twice');

const devices = z
  .string()
  .regex(/^\d{1,2}(,\d{1,2}){0,15}$/, 'must be numbers of GPUs, such as 0,1')
  .transform((text) => text.split(',').map(Number))
  .refine((numbers) => new Set(numbers).size === numbers.length, 'names a GPU twice');

/** Environment variables of this engine. */
export const onnxShape = {
  /** Directory with the owner's models and their manifest; required by the engine `onnx`. */
  SEMBLANCE_MODEL_DIR: z.string().startsWith('/', 'must be an absolute path').optional(),
  /** Execution providers of onnxruntime in order of preference. */
  SEMBLANCE_ONNX_PROVIDERS: z
    .string()
    .default('cpu')
    .refine((text) => !/\btensorrt\b/.test(text), {
      message: 'tensorrt is no provider any more; use cuda',
      abort: true,
    })
    .refine((text) => providers.safeParse(text).success, {
      message: `must be a list of: ${PROVIDERS.join(', ')}`,
    }),
  /** Numbers of the GPUs that load models, separated by commas. */
  SEMBLANCE_ONNX_DEVICES: z
    .string()
    .default('0')
    .refine((text) => devices.safeParse(text).success, 'must be numbers of GPUs, such as 0,1, none twice'),
  /** Device files that must exist. Default: the NVIDIA devices that exist at start, when a GPU provider is set. */
  SEMBLANCE_ONNX_DEVICE_FILES: z
    .string()
    .transform((text) => (text === 'none' ? [] : text.split(',').flatMap((path) => path.trim() || [])))
    .refine((paths) => paths.every((path) => path.startsWith('/')), 'must be absolute paths, or none')
    .optional(),
};

/** @param providers SEMBLANCE_ONNX_PROVIDERS */
export function deviceFiles(given: readonly string[] | undefined, providers: string): readonly string[] {
  return given ?? (/cuda/.test(providers) ? nvidiaDevices() : []);
}

const settings = z.object({
  modelDir: z.string({ error: 'SEMBLANCE_MODEL_DIR is not set: it says where the models are' }),
  providers,
  devices,
  /** Set after the loss of a GPU. Continuing on the CPU would be slow work that nobody asked for. */
  gpuOnly: z.literal('on').optional(),
});

/** Parses the engine's settings as its process receives them. @throws Error naming the setting */
export function parseOnnxSettings(given: Readonly<Record<string, string>>): z.output<typeof settings> {
  const result = settings.safeParse({ providers: 'cpu', devices: '0', ...given });
  if (result.success) return result.data;
  throw new Error(result.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`).join('; '));
}
