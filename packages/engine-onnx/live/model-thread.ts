import { workerData } from 'node:worker_threads';
import { RenderError } from '@semblance/engine-api/engine';
import { serveLiveThread } from '@semblance/engine-builtin/live-swap/serve-live-thread';
import { readFace } from '@semblance/vision/image/picture-file';
import { FaceSwap } from '../face-swap.ts';
import { type PooledModels, receivedModels } from '../sessions/pooled-models.ts';
import { StageLog } from '../stages/models.ts';
import { ModelSwaps } from './model-swaps.ts';

/** Entry file of a thread that draws the new face with the owner's models, one stream at a time. */

const NEVER = new AbortController().signal;
const { data } = workerData as { readonly data: PooledModels };
const models = receivedModels(data);

serveLiveThread({
  async swapsFor(path, { finder, mesher }) {
    const swap = new FaceSwap({ models, finder, mesher, order: data.order });
    const log = new StageLog();
    const picture = await readFace(path);
    const [face] = (await swap.places.look(picture, NEVER, log)).faces;
    const identity = face && (await swap.identify(picture, face, NEVER, log));
    if (!identity)
      throw new RenderError('face_not_detected', 'No face was found in the picture of the face.');
    return new ModelSwaps(swap, identity);
  },
});
