import { ApiError } from '@semblance/common/errors';
import { z } from 'zod';
import type { Handler } from '../http/context.ts';
import type { Operation } from '../openapi/operation.ts';
import { MAX_TEXT_BYTES } from './changes.ts';

/** Answers a request for a socket that asks for no upgrade. */
export const answerNoUpgrade: Handler = async () => {
  throw new ApiError(
    'invalid_input',
    'This is the address of a WebSocket: connect to it with a WebSocket client (RFC 6455, version 13).',
  );
};

export const connectStreamOperation: Operation = {
  id: 'connectStream',
  tag: 'Sessions',
  summary: 'Stream through an open session',
  description:
    'The `stream_url` of a session: a WebSocket, once for each session. The first message is one JSON text frame that tells the format: `{sample_rate, chunk_frames}` of Voice Swap, `{width, height, fps, codec}` of Live Swap Pro. After that both sides send binary messages, and nothing else that the client has not asked for: mono PCM, int16 little-endian, or one encoded picture each. The meter starts at the first converted message, and sound counts for what it lasts at least; at `max_duration_sec` the socket is closed with code 4001. Refusals before the upgrade are HTTP answers.',
  key: 'none',
  path: z.object({
    session_id: z.string().min(1).meta({ description: 'Id of the session, as in its `stream_url`.' }),
  }),
  query: z.object({
    session_token: z.string().optional().meta({
      description:
        'As the session was opened with; good for one connection. A client that is no browser may send it as `Authorization: Bearer …` instead, which keeps it out of the logs of proxies. Left out: it must be in that header.',
    }),
    notices: z.enum(['on']).optional().meta({
      description:
        '`on`: the client takes JSON text frames after the first, which tell what comes. There is one, `{type: "ending", reason, in_seconds}`: the session will be ended by the service, and another can be opened now. Left out: no such frames are sent.',
    }),
    changes: z
      .enum(['on'])
      .optional()
      .meta({
        description: `\`on\`: the client may change its session by JSON text frames, \`{type: "change", id?, prompt}\` for Live Swap Pro and \`{type: "change", id?, voice_profile_id}\` for Voice Swap. The second frame of the service is \`{type: "changeable", fields}\` with the fields that can be changed. Each change is answered by \`{type: "changed", id?, note?}\` or \`{type: "change_refused", id?, code, message}\`, after which nothing has changed. At most one in 2 seconds, with a burst of five, and frames of at most ${MAX_TEXT_BYTES} bytes. Left out: text frames of the client close the socket.`,
      }),
  }),
  answers: [
    { status: 101, description: 'The socket.' },
    {
      status: 200,
      description:
        'The socket, where the client speaks HTTP/2 with a proxy in front of the service (RFC 8441 has 200 in place of 101).',
    },
  ],
  errors: ['unauthorized', 'not_found'],
  otherErrors: [{ status: 502, code: 'internal_error' }],
};
