import type { CallContext } from '@semblance/common/grpc/server';
import type { FindFacesRequest, FindFacesResponse } from '@semblance/proto/semblance/control/v1/control';
import type { Gate } from '../accounts/gate.ts';
import type { SignedLinks } from '../media/signed-links.ts';
import type { FindFaces } from './find-faces.ts';

export interface FaceCallsOptions {
  readonly gate: Gate;
  readonly findFaces: FindFaces;
  readonly links: SignedLinks;
}

/** Creates the call of accounts about the people of their uploads. */
export function createFaceCalls({ gate, findFaces, links }: FaceCallsOptions) {
  return {
    async findFaces(
      { caller, fileKey }: FindFacesRequest,
      { trailers, signal }: CallContext,
    ): Promise<FindFacesResponse> {
      const { accountId, linkSeconds, keyId } = await gate.admit(caller, trailers);
      const { kind, frames, faces, found_at: foundAt, until } = await findFaces(accountId, fileKey, signal);
      return {
        kind,
        frames,
        faces: await Promise.all(
          faces.map(async (face) => ({
            id: face.face_id,
            ...face.box,
            atUs: face.at_us,
            frames: face.frames,
            notSource: face.not_source,
            notTarget: face.not_target,
            cropUrl: await links.to(face.crop_key, foundAt, linkSeconds, { until, keyId }),
          })),
        ),
      };
    },
  };
}

export type FaceCalls = ReturnType<typeof createFaceCalls>;
