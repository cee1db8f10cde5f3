/** Pictures from a camera or a file to the socket, and those that come back onto the page. */
import { drawNumber, NUMBERS, readNumber } from './frame-number.js';

/** More than so many bytes that have not left yet: the line is slower than the pictures, and this one is left out. */
const MOST_UNSENT_BYTES = 200_000;
const JPEG_QUALITY = 0.85;

/**
 * @param {WebSocket} socket
 * @param {{ width: number, height: number, fps: number, codec: string }} format
 * @param {File | undefined} file undefined: the camera
 * @param {import('./figures.js').Figures} figures
 * @param {{ before: HTMLCanvasElement, after: HTMLCanvasElement }} canvases
 */
export async function streamPictures(socket, format, file, figures, { before, after }) {
  if (format.codec !== 'jpeg')
    throw new Error(`This page cannot make pictures of the codec ${format.codec}.`);
  const source = await videoOf(file, format);
  before.width = format.width;
  before.height = format.height;
  const drawing = contextOf(before);
  const shown = contextOf(after);

  /** When each picture that has not come back was sent, by its number, oldest first. @type {Map<number, number>} */
  const sentAt = new Map();
  let next = 0;
  let encoding = false;
  async function send() {
    // A browser that is slower than the rate sends what it can.
    if (encoding || socket.readyState !== WebSocket.OPEN || socket.bufferedAmount > MOST_UNSENT_BYTES) return;
    encoding = true;
    cover(drawing, source.video);
    const number = next++ % NUMBERS;
    drawNumber(drawing, number);
    const picture = await new Promise((/** @type {(blob: Blob | null) => void} */ resolve) =>
      before.toBlob(resolve, 'image/jpeg', JPEG_QUALITY),
    );
    encoding = false;
    if (!picture || socket.readyState !== WebSocket.OPEN) return;
    sentAt.set(number, performance.now());
    if (sentAt.size >= NUMBERS / 2) sentAt.delete(/** @type {number} */ (sentAt.keys().next().value));
    socket.send(picture);
    figures.sent++;
  }

  socket.addEventListener('message', async ({ data }) => {
    if (!(data instanceof ArrayBuffer)) return;
    const arrived = performance.now();
    figures.received++;
    const picture = await createImageBitmap(new Blob([data], { type: 'image/jpeg' }));
    after.width = picture.width;
    after.height = picture.height;
    shown.drawImage(picture, 0, 0);
    picture.close();
    const number = readNumber(shown);
    const sent = number === undefined ? undefined : sentAt.get(number);
    if (sent === undefined) return;
    figures.delay(arrived - sent);
    // Pictures come back in order: those sent before this one will not come any more.
    for (const earlier of sentAt.keys()) {
      sentAt.delete(earlier);
      if (earlier === number) break;
      figures.lost++;
    }
  });
  const timer = setInterval(() => void send(), 1000 / format.fps);
  return {
    stop() {
      clearInterval(timer);
      source.stop();
    },
  };
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

/** @param {File | undefined} file @param {{ width: number, height: number, fps: number }} format */
async function videoOf(file, { width, height, fps }) {
  const video = document.createElement('video');
  video.muted = true;
  video.playsInline = true;
  if (file) {
    const url = URL.createObjectURL(file);
    video.src = url;
    video.loop = true;
    await video.play();
    return {
      video,
      stop() {
        video.pause();
        URL.revokeObjectURL(url);
      },
    };
  }
  const stream = await navigator.mediaDevices.getUserMedia({
    video: { width: { ideal: width }, height: { ideal: height }, frameRate: { ideal: fps } },
  });
  video.srcObject = stream;
  await video.play();
  return {
    video,
    stop() {
      for (const track of stream.getTracks()) track.stop();
    },
  };
}
