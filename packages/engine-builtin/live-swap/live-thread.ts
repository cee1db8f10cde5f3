import { parentPort, workerData } from 'node:worker_threads';
import { RenderError } from '@semblance/engine-api/engine';
import { FaceFinder } from '@semblance/vision/face-finder';
import { FaceRecogniser } from '@semblance/vision/face-recogniser';
import { openSession } from '@semblance/vision/models/session';
import { threadStarted } from '@semblance/vision/models/thread-gate';
import type { SwapSource } from '../video-swap/swap-protocol.ts';
import { SwapThreads } from '../video-swap/swap-threads.ts';
import { PictureStream } from './picture-stream.ts';
import type { Done, Failed, FromThread, StreamThreadOptions, ToThread } from './protocol.ts';
import { readSource } from './source-picture.ts';
import { LiveVideoError } from './types.ts';
import { warmUpBeside, warmUpPictures } from './warm-up.ts';

/** Entry file of a thread that processes one stream at a time. */

const port = parentPort;
if (!port) throw new Error('live-thread.ts runs in a worker thread only');

interface Networks {
  readonly finder: FaceFinder;
  readonly recogniser: FaceRecogniser;
}

const { settings } = workerData as StreamThreadOptions;
let loading: Promise<Networks> | undefined;
let stream: PictureStream | undefined;
/** Kept from one stream to the next, because it is fast only after a while. */
const beside = new SwapThreads(1, new URL('./beside-thread.ts', import.meta.url));

function networks(): Promise<Networks> {
  loading ??= load();
  return loading;
}

async function load(): Promise<Networks> {
  const [blazeface, facemesh, face_features, face_cover, faceres] = await Promise.all([
    openSession('blazeface'),
    openSession('facemesh'),
    openSession('face_features'),
    openSession('face_cover'),
    openSession('faceres'),
  ]);
  const recogniser = new FaceRecogniser(faceres);
  const sessions = { blazeface, facemesh, face_features, face_cover };
  return { finder: new FaceFinder({ ...sessions, recogniser: async () => recogniser }), recogniser };
}

async function openStream(source: SwapSource | undefined): Promise<PictureStream> {
  const { finder, recogniser } = await networks();
  return new PictureStream({ finder, recogniser: async () => recogniser, beside, source });
}

async function sourceOf(path: string): Promise<SwapSource> {
  const { finder } = await networks();
  return readSource(path, finder, settings);
}

async function handle(message: ToThread): Promise<Done | undefined> {
  switch (message.type) {
    case 'warm-up': {
      const source = await sourceOf(message.portrait);
      await warmUpBeside(beside, source);
      const warming = await openStream(source);
      await warmUpPictures(message.portrait, warming);
      await warming.close();
      return undefined;
    }
    case 'open':
      await stream?.close();
      stream = await openStream(message.face === undefined ? undefined : await sourceOf(message.face));
      return undefined;
    case 'close':
      await stream?.close();
      stream = undefined;
      return undefined;
    case 'picture': {
      if (!stream) throw new Error('a picture of no stream');
      const { picture, ...rest } = await stream.transform(message.picture, message.ms);
      // A copy, because the codec's memory cannot be transferred.
      return { ...rest, picture: picture === message.picture ? undefined : new Uint8Array(picture) };
    }
  }
}

function describe(error: unknown): Failed {
  const { message, stack } = error instanceof Error ? error : new Error(String(error));
  const known = error instanceof LiveVideoError || error instanceof RenderError;
  return { code: known ? error.code : undefined, message, stack };
}

function send(message: FromThread, transfer: ArrayBuffer[] = []): void {
  port?.postMessage(message, transfer);
}

port.on('message', async (message: ToThread) => {
  const { id } = message;
  try {
    const result = await handle(message);
    send({ type: 'done', id, result }, result?.picture ? [result.picture.buffer as ArrayBuffer] : []);
    if (message.type === 'picture') stream?.finish();
  } catch (error) {
    send({ type: 'failed', id, error: describe(error) });
  }
});

threadStarted();
