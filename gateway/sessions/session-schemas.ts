import { DEFAULT_LIVE_PROMPT } from '@semblance/common/live-prompt';
import { z } from 'zod';
import { text } from '../jobs/fields.ts';
import { usd } from '../openapi/parts.ts';

/** Default duration of a voice session, in minutes. */
export const DEFAULT_VOICE_MINUTES = 10;

/** Whole minutes to fund, from 1 to `max`. */
function minutes(max: number) {
  const fault = `must be a whole number from 1 to ${max}`;
  return z
    .int(fault)
    .min(1, fault)
    .max(max, fault)
    .meta({ description: `Minutes to fund, from 1 to ${max}: the longest the session may last.` });
}

/** Characters of voice ids; the control plane knows which voices exist. */
const VOICE_ID = /^[A-Za-z0-9._-]{1,100}$/;

/** The prompt of a Live Swap Pro session. */
export const promptOfSession = text(2000);
export const voiceIdOfSession = z
  .string('must be a string')
  .regex(VOICE_ID, 'must be the id of a voice from GET /voices');

const NO_OBJECT = 'The body must be a JSON object';

/** Schemas of the bodies that open a session, by capability. */
export const SESSION_BODIES = {
  'full-live-swap': z
    .object(
      {
        duration_minutes: minutes(240),
        prompt: promptOfSession.nullish().meta({
          description: `What to swap, in at most 2,000 characters; a file_key in it is the picture of the face. Left out: “${DEFAULT_LIVE_PROMPT}”`,
          default: DEFAULT_LIVE_PROMPT,
        }),
      },
      NO_OBJECT,
    )
    .meta({ id: 'LiveSwapProOpen', description: 'What a Live Swap Pro session is opened with.' }),
  voice: z
    .object(
      {
        duration_minutes: minutes(120)
          .nullish()
          .meta({
            description: `Minutes to fund, from 1 to 120: the longest the session may last. Left out: ${DEFAULT_VOICE_MINUTES}.`,
            default: DEFAULT_VOICE_MINUTES,
          }),
        voice_profile_id: voiceIdOfSession
          .nullish()
          .meta({ description: 'An id from GET /voices. Left out: the sound passes through unchanged.' }),
      },
      NO_OBJECT,
    )
    .meta({ id: 'VoiceSwapOpen', description: 'What a Voice Swap session is opened with.' }),
};

const session = {
  session_id: z.string().meta({ description: 'Id of the session.' }),
  stream_url: z.string().meta({ format: 'uri', description: 'Address of the WebSocket.' }),
  session_token: z
    .string()
    .meta({ description: 'Token for the WebSocket, sent as its query parameter `session_token`.' }),
};
const ceiling = {
  max_duration_sec: z.int().min(1).meta({
    description: 'Seconds after which the stream stops; may be less than was asked for.',
  }),
  max_cost_usd: usd('What `max_duration_sec` costs; the balance must cover it.'),
};

/** Schemas of an open session in answers, by capability. */
export const SESSION_RECORDS = {
  'full-live-swap': z
    .object({
      ...session,
      prompt: z.string().meta({ description: 'The prompt that was sent, or the default.' }),
      ...ceiling,
    })
    .meta({ id: 'LiveSwapProSession' }),
  voice: z.object({ ...session, ...ceiling }).meta({ id: 'VoiceSwapSession' }),
};
