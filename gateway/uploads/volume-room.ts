import { statfs } from 'node:fs/promises';
import { ApiError } from '@semblance/common/errors';

export interface VolumeRoomOptions {
  /** Bytes that uploads leave to the outputs of jobs. */
  readonly reserveBytes: number;
  /** Returns the bytes that are free on the volume. */
  readonly freeBytes: () => Promise<number>;
}

/** Room for uploads on the volume of the objects. */
export interface VolumeRoom {
  /**
   * Sets room aside for an upload.
   * @throws ApiError at_capacity when the upload would take what is reserved for outputs
   */
  take(bytes: number): Promise<TakenRoom>;
}

export interface TakenRoom {
  /** Yields the bytes of the upload. @throws ApiError at_capacity when others have used the room meanwhile */
  watch(bytes: AsyncIterable<Buffer>): AsyncGenerator<Buffer>;
  /** Must be called when the upload has ended. */
  giveBack(): void;
}

const FULL = 'The installation has no room for uploads of this size at present. Retry later.';
/** Retry-After, in seconds: room comes from deletions, by owners of files or at the end of their retention. */
const RETRY_SECONDS = 60;
/** Bytes of an upload after which the volume is looked at again. */
const LOOK_EVERY_BYTES = 8 * 1024 * 1024;

/** Returns the bytes that are free on the volume of a folder, for users without privileges. */
export async function freeBytesOf(folder: string): Promise<number> {
  const { bsize, bavail } = await statfs(folder);
  return bavail * bsize;
}

/**
 * Watches over the room on a volume. An upload under way at this gateway counts with all its bytes, also with those that
 * were written and are not free any more; uploads at other gateways count as they are written, which each upload sees.
 */
export function createVolumeRoom({ reserveBytes, freeBytes }: VolumeRoomOptions): VolumeRoom {
  let promised = 0;

  function requireRoom(left: number): void {
    if (left < reserveBytes) throw new ApiError('at_capacity', FULL, { retryAfterSeconds: RETRY_SECONDS });
  }

  return {
    async take(bytes) {
      const free = await freeBytes();
      // Nothing is waited for from here on, so uploads that begin together see each other.
      requireRoom(free - promised - bytes);
      promised += bytes;
      return {
        giveBack() {
          promised -= bytes;
        },
        async *watch(source) {
          let sinceLook = 0;
          for await (const chunk of source) {
            sinceLook += chunk.length;
            if (sinceLook >= LOOK_EVERY_BYTES) {
              sinceLook = 0;
              requireRoom(await freeBytes());
            }
            yield chunk;
          }
        },
      };
    },
  };
}
