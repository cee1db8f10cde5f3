import { z } from 'zod';
import { requireCaller } from '../auth/bearer.ts';
import type { ControlPlane } from '../control/control-plane.ts';
import type { Handler } from '../http/context.ts';
import type { Operation } from '../openapi/operation.ts';

const voiceSchema = z
  .object({
    id: z.string().meta({ description: 'The `voice_profile_id` of a Voice Swap session.' }),
    name: z.string().meta({ description: 'Name of the voice, for people.' }),
    description: z.string().meta({ description: 'How the voice sounds, for people.' }),
    preview_url: z
      .string()
      .meta({ format: 'uri', description: 'Synthesised speech in this voice: a signed, expiring link.' }),
  })
  .meta({ id: 'Voice' });

/** Handles GET /voices: an array, which may be empty. */
export function listVoices({ control }: { readonly control: ControlPlane }): Handler {
  return async (ctx) => {
    const { voices } = await control.listVoices(ctx, { caller: requireCaller(ctx.headers.authorization) });
    ctx.set('Cache-Control', 'no-store');
    ctx.body = voices.map(({ id, name, description, previewUrl }): z.infer<typeof voiceSchema> => {
      return { id, name, description, preview_url: previewUrl };
    });
  };
}

export const listVoicesOperation: Operation = {
  id: 'listVoices',
  tag: 'Sessions',
  summary: 'List target voices',
  description: 'The voices that a Voice Swap session may have.',
  key: 'required',
  answers: [
    {
      status: 200,
      description: 'The voices.',
      schema: z.array(voiceSchema),
      example: [
        {
          id: 'alto',
          name: 'Alto',
          description: 'A low, warm voice.',
          preview_url: 'https://example.com/files/voices/alto.wav?expires=1767225600&signature=q83v',
        },
      ],
    },
  ],
};
