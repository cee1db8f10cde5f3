import { GENDERS } from '@semblance/engine-api/speech';
import type { Caller } from '@semblance/proto/semblance/control/v1/control';
import { z } from 'zod';
import { requireCaller } from '../auth/bearer.ts';
import { checked } from '../auth/checked.ts';
import type { ControlPlane } from '../control/control-plane.ts';
import type { GatewayContext, Handler } from '../http/context.ts';
import { queryOf } from '../http/query.ts';
import type { Operation } from '../openapi/operation.ts';
import { parseQuery } from '../usage/query.ts';

/** One schema for both lists, because few generators of clients can tell two apart. */
const voiceSchema = z
  .object({
    id: z.string().meta({
      description: 'The `voice_profile_id` of a Voice Swap session, or the `voice_id` of Avatar.',
    }),
    name: z.string().meta({ description: 'Name of the voice, for people.' }),
    description: z.string().meta({ description: 'How the voice sounds, for people.' }),
    preview_url: z.string().optional().meta({
      format: 'uri',
      description: 'Synthesised speech in this voice: a signed, expiring link. Voices of Avatar have none.',
    }),
    language: z.string().optional().meta({ description: 'BCP 47 tag, in lower case, of a voice of Avatar.' }),
    gender: z
      .enum(GENDERS)
      .nullable()
      .optional()
      .meta({ description: 'What a voice of Avatar sounds like; null where that is not known.' }),
    variants: z.array(z.string()).optional().meta({
      description: 'Further values of `voice_id` of Avatar: variants of this voice, or its speakers.',
    }),
  })
  .meta({ id: 'Voice' });

const voicesQuery = z.object({
  for: z.enum(['voice', 'avatar'], 'must be voice or avatar').default('voice').meta({
    description:
      'Whose voices: those that a Voice Swap session may have (`voice`, also when left out), or those that an Avatar may speak with (`avatar`).',
  }),
});

/** Handles GET /voices: an array, which may be empty. */
export function listVoices({ control }: { readonly control: ControlPlane }): Handler {
  return async (ctx) => {
    const caller = requireCaller(ctx);
    const query = await checked(ctx, control, () => parseQuery(voicesQuery, queryOf(ctx)));
    ctx.set('Cache-Control', 'no-store');
    ctx.body = query.for === 'avatar' ? await ofAvatar(ctx, caller) : await ofSessions(ctx, caller);
  };

  async function ofSessions(ctx: GatewayContext, caller: Caller) {
    const { voices } = await control.listVoices(ctx, { caller });
    return voices.map(({ id, name, description, previewUrl }): z.infer<typeof voiceSchema> => {
      return { id, name, description, preview_url: previewUrl };
    });
  }

  async function ofAvatar(ctx: GatewayContext, caller: Caller) {
    const { voices } = await control.listAvatarVoices(ctx, { caller });
    return voices.map(({ id, language, gender: said, variants }): z.infer<typeof voiceSchema> => {
      const gender = GENDERS.find((each) => each === said) ?? null;
      const sounds = gender === null ? 'A voice' : `A ${gender} voice`;
      return { id, name: id, description: `${sounds} that speaks ${language}.`, language, gender, variants };
    });
  }
}

export const listVoicesOperation: Operation = {
  id: 'listVoices',
  tag: 'Sessions',
  summary: 'List target voices',
  description:
    'The voices that a Voice Swap session may have; with `for=avatar` those that agents announced for Avatar, also while none is up.',
  key: 'required',
  query: voicesQuery,
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
  errors: ['invalid_input'],
};
