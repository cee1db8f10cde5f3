import { ApiError } from '@semblance/common/errors';
import { MAX_PEOPLE, UNSUITABLE } from '@semblance/engine-api/people';
import type { Face } from '@semblance/proto/semblance/control/v1/control';
import { z } from 'zod';
import type { CallerBeforeBody } from '../auth/known-keys.ts';
import type { ControlPlane } from '../control/control-plane.ts';
import { whileClientWaits } from '../http/client-gone.ts';
import type { Handler } from '../http/context.ts';
import { faultsOf } from '../http/faults.ts';
import { readJson } from '../http/json-body.ts';
import { fileKey } from '../jobs/fields.ts';
import { codes } from '../jobs/job-schema.ts';
import type { Operation } from '../openapi/operation.ts';

export interface FindFacesOptions {
  readonly callerOf: CallerBeforeBody;
  readonly control: ControlPlane;
  /** Longest time for the body to arrive, in ms. */
  readonly bodyTimeoutMs: number;
}

const asked = z
  .object({ file_key: fileKey }, 'The body must be a JSON object')
  .meta({ id: 'FacesRequest', description: 'The file whose people are wanted.' });

/** Handles POST /faces. */
export function findFaces({ callerOf, control, bodyTimeoutMs }: FindFacesOptions): Handler {
  return async (ctx) => {
    const caller = await callerOf(ctx);
    let key: string;
    try {
      const body = await readJson(ctx, bodyTimeoutMs);
      const { data, error } = asked.safeParse(body);
      if (!data) throw new ApiError('invalid_input', faultsOf(error.issues, body));
      key = data.file_key;
    } catch (error) {
      // The key is checked before a fault is reported, and refused calls count as calls.
      if (error instanceof ApiError) await control.authorize(ctx, { caller });
      throw error;
    }
    const found = await whileClientWaits(ctx, (signal) =>
      control.findFaces(ctx, { caller, fileKey: key }, signal),
    );
    ctx.set('Cache-Control', 'no-store');
    ctx.body = {
      file_key: key,
      kind: found.kind,
      frames: found.frames,
      faces: found.faces.map((face) => shown(face, found.frames)),
    };
  };
}

function shown(face: Face, frames: number) {
  const { x, y, width, height } = face;
  return {
    face_id: face.id,
    box: { x, y, width, height },
    at_sec: Number(face.atUs) / 1e6,
    share: frames > 0 ? Math.round((face.frames / frames) * 1_000) / 1_000 : 0,
    usable_as_source: face.notSource.length === 0,
    usable_as_target: face.notTarget.length === 0,
    reasons: { source: face.notSource, target: face.notTarget },
    crop_url: face.cropUrl,
  };
}

const shareOf = (what: string) => z.number().min(0).max(1).meta({ description: what });

const faceSchema = z
  .object({
    face_id: z.string().meta({
      description: 'Id of the person in this file. It is the same at every call, and ends with the file.',
    }),
    box: z
      .object({
        x: shareOf('Share of the width of the frame that is left of the face.'),
        y: shareOf('Share of the height of the frame that is above the face.'),
        width: shareOf('Share of the width of the frame that the face has.'),
        height: shareOf('Share of the height of the frame that the face has.'),
      })
      .meta({ id: 'FaceBox' })
      .meta({
        description: 'Where the face is in the frame that shows it best; upright, as viewers show the file.',
      }),
    at_sec: z.number().min(0).meta({ description: 'Time of that frame, in seconds; 0 in a picture.' }),
    share: shareOf('Share of the frames looked at that show the person; 1 in a picture.'),
    usable_as_source: z
      .boolean()
      .meta({ description: 'Whether this face is the one that is taken when the file is a `face_key`.' }),
    usable_as_target: z.boolean().meta({ description: 'Whether `faces` of a submit may name the person.' }),
    reasons: z
      .object({
        source: z
          .array(z.string())
          .meta({ description: codes('Why it is not usable as source.', UNSUITABLE) }),
        target: z
          .array(z.string())
          .meta({ description: codes('Why it is not usable as target.', UNSUITABLE) }),
      })
      .meta({ id: 'FaceReasons' })
      .meta({ description: 'Why it is not usable; empty lists where it is.' }),
    crop_url: z.string().meta({
      format: 'uri',
      description:
        'Signed link to the face, a JPEG of 192 × 192 pixels. It ends as links to outputs do, and with the file.',
    }),
  })
  .meta({ id: 'FoundFace' });

const facesSchema = z
  .object({
    file_key: z.string().meta({ description: 'The file.' }),
    kind: z
      .enum(['image', 'video'])
      .meta({ description: 'How it was looked at; an animated picture is a video.' }),
    frames: z.int().min(0).meta({ description: 'Number of frames looked at; 1 of a picture.' }),
    faces: z.array(faceSchema).meta({
      description: `The people, the most prominent first, at most ${MAX_PEOPLE}; none if nobody was found.`,
    }),
  })
  .meta({ id: 'FoundFaces' });

export const findFacesOperation: Operation = {
  id: 'findFaces',
  tag: 'Uploads',
  summary: 'Find the people of a picture or video',
  description:
    'An agent looks at the picture, or at up to 48 frames from all over the video, for at most 25 seconds, and tells people apart, also across cuts. It costs nothing. What was found is kept as long as the file, so that another call answers the same at once. One search of an account is under way at a time, and a few wait; beyond that, and while agents have no room, it is `at_capacity`. A file that cannot be read is refused as its job would fail.',
  key: 'required',
  body: {
    type: 'application/json',
    schema: asked,
    example: { file_key: 'api/up-06e2tq7pzb1hyw1y8c2t7xk4d0' },
  },
  answers: [
    {
      status: 200,
      description: 'The people.',
      schema: facesSchema,
      example: {
        file_key: 'api/up-06e2tq7pzb1hyw1y8c2t7xk4d0',
        kind: 'image',
        frames: 1,
        faces: [
          {
            face_id: 'face-5b1c9e0d7a3f42886e19c0a7d4',
            box: { x: 0.31, y: 0.12, width: 0.2, height: 0.27 },
            at_sec: 0,
            share: 1,
            usable_as_source: true,
            usable_as_target: true,
            reasons: { source: [], target: [] },
            crop_url:
              'https://semblance.example.com/files/faces/face-5b1c9e0d7a3f42886e19c0a7d4.jpg?expires=1767225600',
          },
        ],
      },
    },
  ],
  errors: ['invalid_input', 'unsupported_format', 'input_too_large', 'capability_unavailable', 'at_capacity'],
};
