import { describeError } from '@semblance/common/errors';
import type { FlowListener, LiveFlow } from '@semblance/engine-api/live-engine';
import { readJpegHeader } from '@semblance/engine-builtin/live-swap/jpeg-header';
import { encodePicture } from '@semblance/engine-builtin/live-swap/picture-codec';
import { markJpeg, PICTURE_MARK } from '@semblance/engine-builtin/live-swap/picture-mark';
import { takeReaderThread } from '@semblance/engine-builtin/live-swap/reader-thread';
import { LiveVideoError } from '@semblance/engine-builtin/live-swap/types';
import type { SidecarSession } from '@semblance/engine-sidecar/live/open-session';
import type { SharedPictures } from '@semblance/engine-sidecar/live/shared-pictures';

/** Answers that may be encoded at once. */
const MOST_ENCODED = 2;

type Flow = Pick<LiveFlow, 'hasRoom' | 'listen' | 'push' | 'pause' | 'resume' | 'close'>;

/** Passes pictures through a sidecar, in the form that was agreed. Every answer gets the mark of a changed picture. */
export function createPictureFlow(session: SidecarSession, onFailed: (error: Error) => void): Flow {
  const { shared } = session;
  return shared ? sharedFlow(session, shared, onFailed) : jpegFlow(session, onFailed);
}

function jpegFlow({ call, end }: SidecarSession, onFailed: (error: Error) => void): Flow {
  let listener: FlowListener | undefined;
  return {
    get hasRoom() {
      return call.hasRoom;
    },
    listen(given) {
      listener = given;
      call.listen({
        answered: () => given.room(),
        sound() {},
        picture(sequence, data) {
          if (data.$case !== 'jpeg') return call.fail(new Error('the sidecar answers a JPEG with pixels'));
          try {
            readJpegHeader(data.value);
          } catch (error) {
            return call.fail(new Error(`the picture of the sidecar is not taken: ${describeError(error)}`));
          }
          given.converted(sequence, markJpeg(data.value));
        },
        unreadable: (sequence) => given.unreadable(sequence),
        failed: onFailed,
      });
    },
    push(sequence, message) {
      try {
        readJpegHeader(message);
      } catch (error) {
        if (!(error instanceof LiveVideoError)) throw error;
        listener?.unreadable(sequence);
        return;
      }
      const jpeg = Buffer.from(message.buffer, message.byteOffset, message.byteLength);
      call.send({ $case: 'picture', value: { sequence, data: { $case: 'jpeg', value: jpeg } } }, sequence, 1);
    },
    pause: () => call.pause(),
    resume: () => call.resume(),
    close: end,
  };
}

function sharedFlow(
  { call, end }: SidecarSession,
  shared: SharedPictures,
  onFailed: (error: Error) => void,
): Flow {
  let listener: FlowListener | undefined;
  // Not in the agent's own thread, which carries all sessions.
  const reader = takeReaderThread();
  /** Places of pictures that have no answer yet, by their numbers. */
  const places = new Map<bigint, number>();
  // Each works on its pictures one after the other, so that their order stays.
  let inward = Promise.resolve();
  let outward = Promise.resolve();
  let decoding = 0;
  let encoding = 0;

  const failed = (error: unknown) => call.fail(error instanceof Error ? error : new Error(String(error)));

  async function give(sequence: bigint, message: Uint8Array): Promise<void> {
    try {
      const pixels = await reader.read(message);
      const slot = await shared.put(pixels);
      places.set(sequence, slot);
      const { width, height } = pixels;
      const data = { $case: 'shared', value: { slot, width, height } } as const;
      decoding--;
      call.send({ $case: 'picture', value: { sequence, data } }, sequence, 1);
    } catch (error) {
      decoding--;
      if (!(error instanceof LiveVideoError)) throw error;
      listener?.unreadable(sequence);
    }
    listener?.room();
  }

  async function take(sequence: bigint, slot: number, width: number, height: number): Promise<void> {
    try {
      const picture = await shared.take(slot, width, height);
      listener?.converted(sequence, await encodePicture(picture, PICTURE_MARK));
    } finally {
      encoding--;
    }
    listener?.room();
  }

  return {
    get hasRoom() {
      // While one is decoded, whether the engine has room for another is not known.
      return decoding === 0 && encoding < MOST_ENCODED && call.hasRoom;
    },
    listen(given) {
      listener = given;
      call.listen({
        answered(sequence) {
          // What was made of the last one may still be in its place.
          for (const [number, slot] of places)
            if (number < sequence) {
              places.delete(number);
              shared.free(slot);
            }
          given.room();
        },
        sound() {},
        picture(sequence, data) {
          const slot = places.get(sequence);
          if (data.$case !== 'shared' || slot === undefined || data.value.slot !== slot)
            return call.fail(new Error('the sidecar answers in a place that is not that of its picture'));
          places.delete(sequence);
          encoding++;
          const { width, height } = data.value;
          outward = outward.then(() => take(sequence, slot, width, height)).catch(failed);
        },
        unreadable: (sequence) => given.unreadable(sequence),
        failed: onFailed,
      });
    },
    push(sequence, message) {
      decoding++;
      inward = inward.then(() => give(sequence, message)).catch(failed);
    },
    pause: () => call.pause(),
    resume: () => call.resume(),
    async close() {
      await Promise.all([inward, outward]);
      await reader.close();
      await end();
    },
  };
}
