import { EngineInterruptedError } from '@semblance/engine-api/engine';
import { PictureDecoder } from '@semblance/vision/image/decoder-process';
import { JpegDecoder } from './jpeg-decoder.ts';
import { damaged, type JpegHeader, readJpegHeader } from './jpeg-header.ts';
import type { Pixels } from './picture-codec.ts';
import { PICTURE_LIMITS } from './types.ts';
import { upright } from './upright.ts';

const HOW = { limit: PICTURE_LIMITS.pixels, space: 'srgb', depth: 'uchar', alpha: 'remove' } as const;
/** Of a process, which is replaced after that much processor time. */
const PROCESS = { cpuSec: 120, memoryMib: 1_024 };
const END_OF_IMAGE = Buffer.from([0xff, 0xd9]);

/**
 * Decodes the pictures of one stream, one after the other. Those that cameras and browsers send are decoded in
 * WebAssembly; those of other colours by libvips in a process behind the walls of this machine, which takes longer.
 */
export class PictureReader {
  readonly #decoder: JpegDecoder;
  #process: PictureDecoder | undefined;

  constructor(decoder = new JpegDecoder(PICTURE_LIMITS)) {
    this.#decoder = decoder;
  }

  /** @throws LiveVideoError `bad_frame`; EngineInterruptedError when this machine lacks the process for it */
  async read(picture: Uint8Array): Promise<Pixels> {
    const header = readJpegHeader(picture);
    try {
      return header.plain ? this.#readPlain(picture, header) : await this.#readOther(picture, header);
    } catch (error) {
      if (error instanceof EngineInterruptedError) throw error;
      throw damaged(error);
    }
  }

  /** Ends the process, if there is one. */
  async close(): Promise<void> {
    const process = this.#process;
    this.#process = undefined;
    await process?.close();
  }

  #readPlain(picture: Uint8Array, { width, height, orientation, scanAt }: JpegHeader): Pixels {
    const { doubtful, ...pixels } = this.#decoder.decode(picture);
    if (pixels.width !== width || pixels.height !== height)
      throw new Error(`a JPEG of two sizes, ${width} × ${height} and ${pixels.width} × ${pixels.height}`);
    // Cameras write stray bytes. What lacks its end is cut off.
    const bytes = Buffer.from(picture.buffer, picture.byteOffset, picture.byteLength);
    if (doubtful && !bytes.includes(END_OF_IMAGE, scanAt)) throw new Error('the end of the JPEG is missing');
    return { ...upright(pixels, orientation), turned: orientation !== 1 };
  }

  async #readOther(picture: Uint8Array, { orientation }: JpegHeader): Promise<Pixels> {
    if (this.#process?.isOver) await this.close();
    this.#process ??= await PictureDecoder.start(PROCESS);
    const { channels, ...pixels } = await this.#process.decode(picture, { ...HOW, sequential: true });
    if (channels !== 3) throw new Error(`a picture of ${channels} channels`);
    return { ...pixels, turned: orientation !== 1 };
  }
}
