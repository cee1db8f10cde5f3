import { parentPort } from 'node:worker_threads';
import { openSession } from '@semblance/vision/models/session';
import { threadStarted } from '@semblance/vision/models/thread-gate';
import { Tensor } from 'onnxruntime-node';

/** Thread that runs a network without end and reports each run. */
threadStarted();
const session = await openSession('facemesh');
const [name = ''] = session.inputNames;
for (;;) {
  await session.run({ [name]: new Tensor('float32', new Float32Array(192 * 192 * 3), [1, 192, 192, 3]) });
  parentPort?.postMessage('ran');
}
