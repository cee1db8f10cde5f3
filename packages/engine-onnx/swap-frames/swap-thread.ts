/** Entry file of a thread that swaps faces in the frames of videos, with the models of the main thread's pool. */
import { workerData } from 'node:worker_threads';
import { describeError } from '@semblance/common/errors';
import { RenderError } from '@semblance/engine-api/engine';
import { serveFrames } from '@semblance/engine-builtin/pool/serve-frames';
import { FaceFinder } from '@semblance/vision/face-finder';
import { FaceMesher } from '@semblance/vision/face-mesh';
import { openSession } from '@semblance/vision/models/session';
import { placedAt } from '../face-places.ts';
import { FaceSwap, type Identity } from '../face-swap.ts';
import { withRenderOptions } from '../render-options.ts';
import { type PooledModels, receivedModels } from '../sessions/pooled-models.ts';
import { type Models, StageLog } from '../stages/models.ts';
import { editAround, partAround } from '../vision/frame-edit.ts';
import type { FrameAnswer, FrameDone, FrameSource, FrameWork } from './protocol.ts';

interface State {
  readonly source: FrameSource;
  /** The models as this render uses them. */
  readonly models: Models;
  readonly identity: Identity;
  readonly ended: AbortController;
}

const data = workerData as PooledModels;
const models = receivedModels(data);
let loading: Promise<FaceSwap> | undefined;

serveFrames<FrameSource, State, FrameWork, FrameAnswer>(
  (source) => {
    const used = withRenderOptions(models, source.options);
    return { source, models: used, identity: identityOf(source, used), ended: new AbortController() };
  },
  async (state, work) => {
    try {
      return { answer: await handle((await loaded()).using(state.models), state, work) };
    } catch (error) {
      const code = error instanceof RenderError ? error.code : undefined;
      return { answer: { fault: describeError(error), code } };
    }
  },
  ({ ended }) => ended.abort(new Error('the render has ended')),
);

function loaded(): Promise<FaceSwap> {
  loading ??= load().catch((error: unknown) => {
    // The next frame tries again.
    loading = undefined;
    throw error;
  });
  return loading;
}

async function load(): Promise<FaceSwap> {
  const [blazeface, facemesh, face_cover] = await Promise.all([
    openSession('blazeface'),
    openSession('facemesh'),
    openSession('face_cover'),
  ]);
  const finder = new FaceFinder({ blazeface, facemesh, face_cover });
  return new FaceSwap({ models, finder, mesher: new FaceMesher(facemesh), order: data.order });
}

/** Returns the identity with its forms for the swappers as they are open here. */
function identityOf({ identity, sources }: FrameSource, used: Models): Identity {
  const byName = new Map(sources);
  const forms = used.all('swapper').flatMap((swapper) => {
    const form = byName.get(swapper.model.name);
    return form ? [[swapper, form] as const] : [];
  });
  return { ...identity, sources: new Map(forms) };
}

async function handle(
  swap: FaceSwap,
  { source: { colors }, identity, ended: { signal } }: State,
  work: FrameWork,
): Promise<FrameDone> {
  const log = new StageLog();
  const { frame } = work;
  if (work.type === 'refine') {
    const five = await Promise.all(
      work.faces.map(async (face) => {
        const part = partAround(frame, face, colors);
        if (!part) return undefined;
        const points = await swap.places.refine(part.picture, part.face, signal, log);
        return points?.map(({ x, y }) => ({ x: x + part.rect.x, y: y + part.rect.y }));
      }),
    );
    return { report: log.report, five };
  }
  // One after the other, because faces may overlap.
  for (const { face, five, opacity } of work.faces) {
    await editAround(frame, face, colors, async (picture, mesh, { x: left, y: top }) => {
      const points = five.map(({ x, y }) => ({ x: x - left, y: y - top }));
      await swap.swapFaces(picture, [{ ...placedAt(mesh, points), opacity }], identity, signal, log);
    });
  }
  return { report: log.report };
}
