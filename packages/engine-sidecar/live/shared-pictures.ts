import { constants } from 'node:fs';
import { chmod, type FileHandle, open, statfs } from 'node:fs/promises';
import { broken } from '../contract-error.ts';

/** Type of a memory file system, as statfs(2) of Linux says it. */
const TMPFS = 0x01021994;

/** Pixels of a picture, three bytes each. */
export interface SharedPixels {
  readonly width: number;
  readonly height: number;
  readonly data: Uint8Array;
}

/**
 * The file of one session's pixels. Each place has room for the picture from the agent, and after it for the picture
 * that answers it. A place is in use from `put` until `take` or `free`.
 */
export interface SharedPictures {
  readonly slots: number;
  readonly pictureBytes: number;
  /** Writes a picture into a free place, and returns the number of the place. */
  put(picture: SharedPixels): Promise<number>;
  /**
   * Reads the answer in a place, which is free then.
   * @throws ContractError when it does not fit there, or nothing was put there
   */
  take(slot: number, width: number, height: number): Promise<SharedPixels>;
  /** Frees a place whose picture is not answered. */
  free(slot: number): void;
  close(): Promise<void>;
}

/** Returns whether a folder lies on a memory file system, where a file costs no disk. */
export async function isInMemory(folder: string): Promise<boolean> {
  return (await statfs(folder)).type === TMPFS;
}

/** Makes the file, which must not exist. @param pictureBytes of the largest picture */
export async function createSharedPictures(
  path: string,
  slots: number,
  pictureBytes: number,
): Promise<SharedPictures> {
  const flags = constants.O_RDWR | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
  const file: FileHandle = await open(path, flags, 0o660);
  try {
    // Whatever the umask: the two containers may run as different users of one group.
    await chmod(path, 0o660);
    await file.truncate(slots * 2 * pictureBytes);
  } catch (error) {
    await file.close();
    throw error;
  }
  const unused = Array.from({ length: slots }, (_, slot) => slot);
  const taken = new Set<number>();
  return {
    slots,
    pictureBytes,
    async put({ data }) {
      const slot = unused.shift();
      if (slot === undefined) throw new Error('every place for a picture is taken');
      taken.add(slot);
      await whole(file, 'write', data, slot * 2 * pictureBytes);
      return slot;
    },
    async take(slot, width, height) {
      if (!taken.delete(slot)) broken(`it answered with the place ${slot}, where no picture was put`);
      const bytes = width * height * 3;
      if (width < 1 || height < 1 || bytes > pictureBytes)
        broken(`its picture has ${width} × ${height} pixels`);
      const data = new Uint8Array(bytes);
      await whole(file, 'read', data, (slot * 2 + 1) * pictureBytes);
      unused.push(slot);
      return { width, height, data };
    },
    free(slot) {
      if (taken.delete(slot)) unused.push(slot);
    },
    close: () => file.close(),
  };
}

/** Reads or writes all bytes. @throws ContractError when the sidecar has shortened the file */
async function whole(
  file: FileHandle,
  way: 'read' | 'write',
  data: Uint8Array,
  position: number,
): Promise<void> {
  for (let done = 0; done < data.length; ) {
    const { length } = data;
    const moved =
      way === 'read'
        ? (await file.read(data, done, length - done, position + done)).bytesRead
        : (await file.write(data, done, length - done, position + done)).bytesWritten;
    if (moved === 0) broken('the file of its pictures is shorter than it was made');
    done += moved;
  }
}
