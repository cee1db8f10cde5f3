import { FaceSwap, type Identity } from '@semblance/engine-onnx/internal/face-swap';
import { PoolShare } from '@semblance/engine-onnx/internal/sessions/pooled-models';
import { Models, type RunsModels, StageLog } from '@semblance/engine-onnx/internal/stages/models';
import { openModelDir } from '@semblance/engine-onnx/model-dir';
import { SessionPool } from '@semblance/engine-onnx/sessions/session-pool';
import { FaceFinder } from '@semblance/vision/face-finder';
import { FaceMesher } from '@semblance/vision/face-mesh';
import { readFace } from '@semblance/vision/image/picture-file';
import { openSession } from '@semblance/vision/models/session';
import type { GivenModel, ModelDirRig } from './model-dir-rig.ts';

const NEVER = new AbortController().signal;

/** The shipped networks that find faces. */
export interface FaceNetworks {
  readonly finder: FaceFinder;
  readonly mesher: FaceMesher;
}

export async function openFaceNetworks(): Promise<FaceNetworks> {
  const [blazeface, facemesh, face_features, face_cover] = await Promise.all([
    openSession('blazeface'),
    openSession('facemesh'),
    openSession('face_features'),
    openSession('face_cover'),
  ]);
  const finder = new FaceFinder({ blazeface, facemesh, face_features, face_cover });
  return { finder, mesher: new FaceMesher(facemesh) };
}

/** The parts of the engine `onnx` that swap faces, over one pool. */
export interface PooledSwap {
  readonly swap: FaceSwap;
  /** Lets threads run the same models. */
  readonly share: PoolShare;
  /** Returns the most prominent face of a picture as a source. */
  identity(picture: string): Promise<Identity>;
  close(): Promise<void>;
}

/** @param through changes how models run */
export async function openPooledSwap(
  rig: ModelDirRig,
  given: readonly GivenModel[],
  networks: FaceNetworks,
  through: (pool: RunsModels) => RunsModels = (pool) => pool,
): Promise<PooledSwap> {
  const { models, order, faults } = await openModelDir(await rig.make(given));
  if (faults.length > 0) throw new Error(faults.join('; '));
  const options = { models, providers: ['cpu'] as const, devices: [0], threads: 1 };
  const { pool } = await SessionPool.open(options, AbortSignal.timeout(60_000));
  const changed = through(pool);
  const swap = new FaceSwap({ models: new Models(changed, models), ...networks, order });
  const share = new PoolShare(changed, models, order);
  return {
    swap,
    share,
    async identity(picture) {
      const source = await readFace(picture);
      const [face] = (await swap.places.look(source, NEVER, new StageLog())).faces;
      const identity = face && (await swap.identify(source, face, NEVER, new StageLog()));
      if (!identity) throw new Error('no face in the source picture');
      return identity;
    },
    async close() {
      share.close();
      await pool.close();
    },
  };
}
