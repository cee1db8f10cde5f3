import { z } from 'zod';
import { requireCaller } from '../auth/bearer.ts';
import type { ControlPlane } from '../control/control-plane.ts';
import type { Handler } from '../http/context.ts';
import type { Operation } from '../openapi/operation.ts';

const voiceSchema = z
  .object({
    id: z.string().meta({ description: 'The `voice_profile_id` of a Voice Swap session.' }),
    name: z.string(),
    description: z.string(),
    preview_url: z.string().meta({ format: 'uri', description: 'A sample to listen to.' }),
  })
  .meta({ id: 'Voice' });

type Voice = z.infer<typeof voiceSchema>;

/** The target voices of this release. It has no engine that could speak with one, and so none. */
const VOICES: readonly Voice[] = [];

/** Whether `id` is that of a voice which GET /voices lists. */
export function isVoice(id: string): boolean {
  return VOICES.some((voice) => voice.id === id);
}

/** GET /voices: an array, which may be empty. */
export function listVoices({ control }: { readonly control: ControlPlane }): Handler {
  return async (ctx) => {
    await control.authorize(ctx, { caller: requireCaller(ctx.headers.authorization) });
    ctx.set('Cache-Control', 'no-store');
    ctx.body = VOICES;
  };
}

export const listVoicesOperation: Operation = {
  id: 'listVoices',
  tag: 'Sessions',
  summary: 'List target voices',
  description: 'The voices that a Voice Swap session may have. This release has none: the array is empty.',
  key: 'required',
  answers: [{ status: 200, description: 'The voices.', schema: z.array(voiceSchema), example: [] }],
};
