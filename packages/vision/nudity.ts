import { Tensor } from 'onnxruntime-node';
import { openSession } from './models/session.ts';

/** Side of the network's square input, in pixels. */
export const NUDITY_SIDE = 224;
/** Places of the classes hentai and porn among the network's: drawing, hentai, neutral, porn, sexy. */
const SEXUAL = [1, 3] as const;

/**
 * Returns the share, from 0 to 1, in which a picture is of sexual acts or naked genitals, real or drawn.
 * @param pixels red, green and blue of NUDITY_SIDE² pixels, into which the whole picture is stretched
 */
export type NudityOf = (pixels: Uint8Array) => Promise<number>;

/** Opens the network of nsfwjs. It is fed shares of 255, as by `classify` of nsfwjs 4. */
export async function openNudity(): Promise<NudityOf> {
  const session = await openSession('nudity');
  const [name = ''] = session.inputNames;
  return async (pixels) => {
    const input = Float32Array.from(pixels, (value) => value / 255);
    const shape = [1, NUDITY_SIDE, NUDITY_SIDE, 3];
    const { classes } = await session.run({ [name]: new Tensor('float32', input, shape) });
    const shares = classes?.data as Float32Array;
    return SEXUAL.reduce((sum, at) => sum + (shares[at] ?? 0), 0);
  };
}
