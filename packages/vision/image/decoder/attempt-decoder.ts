import { AsyncLocalStorage } from 'node:async_hooks';
import { PictureDecoder } from './decoder.ts';

/** The decoder of one attempt, from its first picture on. */
interface Attempt {
  decoder: Promise<PictureDecoder> | undefined;
}

const attempts = new AsyncLocalStorage<Attempt>();
/** A process that has decoded nothing yet; undefined where none is kept. */
let spare: Promise<PictureDecoder> | undefined;
let keepsSpare = false;

/**
 * Lets the pictures of one attempt share a process, which ends with it: what one account sent never meets what another
 * one did.
 * @param options `early`: it starts at once, beside the work, because a picture will surely be decoded
 */
export async function withOneDecoder<Result>(
  work: () => Promise<Result>,
  { early = false }: { readonly early?: boolean } = {},
): Promise<Result> {
  const attempt: Attempt = { decoder: early ? takeDecoder() : undefined };
  // The picture that needs it tries again.
  attempt.decoder?.catch(() => {
    attempt.decoder = undefined;
  });
  try {
    return await attempts.run(attempt, work);
  } finally {
    await end(attempt);
  }
}

/** Runs with the decoder of the attempt, or with one of its own. */
export async function withDecoder<Result>(
  work: (decoder: PictureDecoder) => Promise<Result>,
): Promise<Result> {
  const attempt = attempts.getStore();
  if (!attempt) return withOneDecoder(() => withDecoder(work));
  attempt.decoder ??= takeDecoder();
  return work(await attempt.decoder);
}

/** Starts a process before it is needed, now and after each attempt that took one. */
export function keepSpareDecoder(): void {
  keepsSpare = true;
  prepare();
}

function prepare(): void {
  if (!keepsSpare || spare) return;
  spare = PictureDecoder.start();
  // The attempt that needs it tries again.
  spare.catch(() => {
    spare = undefined;
  });
}

function takeDecoder(): Promise<PictureDecoder> {
  const taken = spare ?? PictureDecoder.start();
  spare = undefined;
  return taken;
}

async function end({ decoder }: Attempt): Promise<void> {
  if (!decoder) return;
  await (await decoder.catch(() => undefined))?.close();
  prepare();
}
