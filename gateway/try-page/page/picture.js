/** Sends pictures from a camera or a file to the socket, and draws those that come back. */
import { openDevice } from './device.js';
import { drawNumber, NUMBERS, readNumber } from './frame-number.js';
import { newestOf } from './newest.js';
import { Returns } from './returns.js';
import { atEnd, orEnd } from './run.js';

/** Unsent bytes above which a picture is dropped, because the connection is slower than the pictures. */
const MOST_UNSENT_BYTES = 200_000;
const JPEG_QUALITY = 0.85;

/**
 * Opens a playing video; its faults are reported before there is a session.
 * @param {File | undefined} file undefined: the camera
 * @param {AbortController} run
 */
export async function openVideo(file, run) {
  const video = document.createElement('video');
  video.muted = true;
  video.playsInline = true;
  atEnd(run.signal, () => video.pause());
  if (file) {
    const url = URL.createObjectURL(file);
    atEnd(run.signal, () => URL.revokeObjectURL(url));
    video.src = url;
    video.loop = true;
  } else video.srcObject = await openDevice('camera', { video: true }, run);
  const unreadable = 'This browser finds no pictures in the file that it can read.';
  try {
    await orEnd(video.play(), run.signal);
  } catch (error) {
    if (!file || run.signal.aborted) throw error;
    throw new Error(unreadable, { cause: error });
  }
  // A file with sound only plays too, and would be sent as black pictures that are charged.
  if (video.videoWidth === 0) throw new Error(file ? unreadable : 'The camera gives no pictures.');
  video.addEventListener('error', () => run.abort(new Error('the file cannot be read any further')));
  return video;
}

/**
 * @param {WebSocket} socket
 * @param {{ width: number, height: number, fps: number, codec: string }} format
 * @param {HTMLVideoElement} video
 * @param {import('./figures.js').Figures} figures
 * @param {AbortController} run
 * @param {{ before: HTMLCanvasElement, after: HTMLCanvasElement }} canvases
 */
export async function streamPictures(socket, format, video, figures, run, { before, after }) {
  if (format.codec !== 'jpeg')
    throw new Error(`This page cannot make pictures of the codec ${format.codec}.`);
  const { signal } = run;
  await orEnd(askFor(video, format), signal);
  before.width = format.width;
  before.height = format.height;
  const drawing = contextOf(before);
  const shown = contextOf(after);

  const returns = new Returns();
  let next = 0;
  let encoding = false;
  async function send() {
    // A browser that is slower than the rate sends what it can.
    if (encoding || socket.readyState !== WebSocket.OPEN || socket.bufferedAmount > MOST_UNSENT_BYTES) return;
    encoding = true;
    cover(drawing, video);
    const number = next++ % NUMBERS;
    drawNumber(drawing, number);
    const picture = await new Promise((/** @type {(blob: Blob | null) => void} */ resolve) =>
      before.toBlob(resolve, 'image/jpeg', JPEG_QUALITY),
    );
    encoding = false;
    if (!picture) throw new Error('this browser could not encode a picture');
    if (signal.aborted || socket.readyState !== WebSocket.OPEN) return;
    returns.sent(number, performance.now());
    socket.send(picture);
    figures.sent++;
  }

  /** @param {{ data: ArrayBuffer, arrived: number }} message */
  async function draw({ data, arrived }) {
    const picture = await createImageBitmap(new Blob([data], { type: 'image/jpeg' }));
    after.width = picture.width;
    after.height = picture.height;
    shown.drawImage(picture, 0, 0);
    picture.close();
    const returned = returns.back(readNumber(shown), arrived);
    if (!returned) return;
    figures.delay(returned.delay);
    figures.lost += returned.lost;
  }
  const drawNewest = newestOf(draw, () => {
    returns.back(undefined, 0);
    figures.unshown++;
  });
  socket.addEventListener('message', ({ data }) => {
    if (!(data instanceof ArrayBuffer)) return;
    figures.received++;
    drawNewest({ data, arrived: performance.now() });
  });
  const timer = setInterval(() => void send().catch((error) => run.abort(error)), 1000 / format.fps);
  atEnd(signal, () => clearInterval(timer));
}

/**
 * Asks a camera for the size and rate of the session; other pictures are cropped to them.
 * @param {HTMLVideoElement} video @param {{ width: number, height: number, fps: number }} format
 */
async function askFor({ srcObject }, { width, height, fps }) {
  if (!(srcObject instanceof MediaStream)) return;
  for (const track of srcObject.getVideoTracks())
    await track
      .applyConstraints({ width: { ideal: width }, height: { ideal: height }, frameRate: { ideal: fps } })
      // The request is optional: any size is cropped.
      .catch(() => {});
}

/** @param {HTMLCanvasElement} canvas */
function contextOf(canvas) {
  const context = canvas.getContext('2d', { willReadFrequently: true });
  if (!context) throw new Error('This browser draws no pictures.');
  return context;
}

/** @param {CanvasRenderingContext2D} context @param {HTMLVideoElement} video */
function cover(context, video) {
  const { width, height } = context.canvas;
  const scale = Math.max(width / video.videoWidth, height / video.videoHeight);
  const [w, h] = [video.videoWidth * scale, video.videoHeight * scale];
  context.drawImage(video, (width - w) / 2, (height - h) / 2, w, h);
}
