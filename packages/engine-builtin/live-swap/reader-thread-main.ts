import { type MessagePort, parentPort } from 'node:worker_threads';
import { describeFailure } from './failures.ts';
import { PictureReader } from './picture-reader.ts';
import type { FromReader, ToReader } from './reader-protocol.ts';

/** Entry file of a thread that decodes the pictures of one stream at a time. */

const port = parentPort as MessagePort;
let reader = new PictureReader();

port.on('message', async (message: ToReader) => {
  const { answer, transfer } = await answerTo(message);
  port.postMessage(answer, transfer);
});

async function answerTo(message: ToReader): Promise<{ answer: FromReader; transfer: ArrayBuffer[] }> {
  try {
    if (message.type === 'close') {
      // The next stream meets nothing that a picture of this one did.
      const last = reader;
      reader = new PictureReader();
      await last.close();
      return { answer: { type: 'closed' }, transfer: [] };
    }
    const pixels = await reader.read(message.picture);
    return { answer: { type: 'pixels', pixels }, transfer: [pixels.data.buffer as ArrayBuffer] };
  } catch (error) {
    return { answer: { type: 'failed', error: describeFailure(error) }, transfer: [] };
  }
}
