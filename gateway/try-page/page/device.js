/** Microphone and camera: requested before anything costs money, and released at the end of the run. */
import { atEnd, orEnd } from './run.js';

/** @type {Record<string, (device: string) => string>} */
const REFUSALS = {
  NotAllowedError: (device) => `This page was not allowed to use the ${device}.`,
  NotFoundError: (device) => `There is no ${device} on this machine.`,
  NotReadableError: (device) => `The ${device} cannot be used: another program may have it.`,
};

/** @param {string} what */
export function demandSecure(what) {
  if (!isSecureContext)
    throw new Error(`Browsers give pages ${what} only over HTTPS or on the machine itself (localhost).`);
}

/**
 * @param {'microphone' | 'camera'} device
 * @param {MediaStreamConstraints} constraints
 * @param {AbortController} run
 */
export async function openDevice(device, constraints, run) {
  demandSecure(`a ${device}`);
  if (!navigator.mediaDevices) throw new Error(`This browser gives pages no ${device}.`);
  const asked = navigator.mediaDevices.getUserMedia(constraints).then((stream) => {
    // Also for a run that is already over, because the answer may come late.
    atEnd(run.signal, () => {
      for (const track of stream.getTracks()) track.stop();
    });
    for (const track of stream.getTracks())
      track.addEventListener('ended', () =>
        run.abort(new Error(`the ${device} is gone: it was unplugged or taken away`)),
      );
    return stream;
  });
  try {
    return await orEnd(asked, run.signal);
  } catch (error) {
    const sentence = error instanceof DOMException ? REFUSALS[error.name] : undefined;
    throw sentence ? new Error(sentence(device), { cause: error }) : error;
  }
}
