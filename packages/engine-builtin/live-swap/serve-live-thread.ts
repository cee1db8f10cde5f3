import { parentPort } from 'node:worker_threads';
import { FaceFinder } from '@semblance/vision/face-finder';
import { FaceMesher } from '@semblance/vision/face-mesh';
import { FaceRecogniser } from '@semblance/vision/face-recogniser';
import { openSession } from '@semblance/vision/models/session';
import { threadStarted } from '@semblance/vision/models/thread-gate';
import { describeFailure } from './failures.ts';
import type { FrameSwaps } from './frame-swaps.ts';
import { PictureStream } from './picture-stream.ts';
import type { Done, FromThread, ToThread } from './protocol.ts';
import { warmUpPictures } from './warm-up.ts';

/** The networks of a thread, which find and follow faces whoever draws the new ones. */
export interface LiveNetworks {
  readonly finder: FaceFinder;
  readonly mesher: FaceMesher;
  readonly recogniser: FaceRecogniser;
}

/** How the faces of a thread's streams are swapped. */
export interface LiveKind {
  /**
   * Prepares the face of a picture for a stream.
   * @throws RenderError `face_not_detected`, `unsupported_format`, `input_too_large`
   */
  swapsFor(path: string, networks: LiveNetworks): Promise<FrameSwaps>;
  /** Makes what runs beside the pictures fast, with a portrait, before the first stream. */
  warmUp?(portrait: string, networks: LiveNetworks): Promise<void>;
}

/** Makes this worker thread one that processes one stream at a time. */
export function serveLiveThread(kind: LiveKind): void {
  const port = parentPort;
  if (!port) throw new Error('a live thread is a worker thread');
  const send = (message: FromThread, transfer: ArrayBuffer[] = []) => port.postMessage(message, transfer);
  let loading: Promise<LiveNetworks> | undefined;
  let stream: PictureStream | undefined;

  function networks(): Promise<LiveNetworks> {
    loading ??= load();
    return loading;
  }

  async function swapsOf(face: string | undefined): Promise<FrameSwaps | undefined> {
    return face === undefined ? undefined : kind.swapsFor(face, await networks());
  }

  async function openStream(face: string | undefined): Promise<PictureStream> {
    const loaded = await networks();
    const swaps = await swapsOf(face);
    return new PictureStream({ finder: loaded.finder, recogniser: async () => loaded.recogniser, swaps });
  }

  async function handle(message: ToThread): Promise<Done | undefined> {
    switch (message.type) {
      case 'warm-up': {
        await kind.warmUp?.(message.portrait, await networks());
        const warming = await openStream(message.portrait);
        await warmUpPictures(message.portrait, warming);
        await warming.close();
        return undefined;
      }
      case 'open':
        await stream?.close();
        stream = await openStream(message.face);
        return undefined;
      case 'change':
        if (!stream) throw new Error('a face for no stream');
        await stream.change(() => swapsOf(message.face));
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

  port.on('message', async (message: ToThread) => {
    const { id } = message;
    try {
      const result = await handle(message);
      send({ type: 'done', id, result }, result?.picture ? [result.picture.buffer as ArrayBuffer] : []);
      if (message.type === 'picture') stream?.finish();
    } catch (error) {
      send({ type: 'failed', id, error: describeFailure(error) });
    }
  });
  threadStarted();
}

async function load(): Promise<LiveNetworks> {
  const [blazeface, facemesh, face_features, face_cover, faceres] = await Promise.all([
    openSession('blazeface'),
    openSession('facemesh'),
    openSession('face_features'),
    openSession('face_cover'),
    openSession('faceres'),
  ]);
  const recogniser = new FaceRecogniser(faceres);
  const sessions = { blazeface, facemesh, face_features, face_cover };
  return {
    finder: new FaceFinder({ ...sessions, recogniser: async () => recogniser }),
    mesher: new FaceMesher(facemesh),
    recogniser,
  };
}
