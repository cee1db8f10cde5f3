/**
 * Thread of live video that speaks the protocol without networks. The path of the face and the first byte of a
 * picture select its behaviour.
 */
export const PLAIN_THREAD = `
import { parentPort } from 'node:worker_threads';
import { threadStarted } from '${new URL('../../../vision/models/thread-gate.ts', import.meta.url)}';
threadStarted();
let open = false;
parentPort.on('message', (message) => {
  const { type, id } = message;
  const done = (result) => parentPort.postMessage({ type: 'done', id, result });
  if (type === 'open') {
    if (open) throw new Error('two streams at once');
    if (message.face === '/none')
      return parentPort.postMessage({ type: 'failed', id, error: { code: 'face_not_detected', message: 'none' } });
    open = true;
    if (message.face === '/slow') return setTimeout(done, 300);
    if (message.face === '/hangs') return;
  }
  if (type === 'close') open = false;
  if (type !== 'picture') return done();
  const [what] = message.picture;
  if (what === 1) process.exit(3);
  if (what === 2) throw new Error('broken on purpose');
  if (what === 3) return parentPort.postMessage({ type: 'failed', id, error: { message: 'a bug' } });
  if (what === 4) return setTimeout(() => done({ faces: 0, swapped: false }), 50);
  done({ picture: message.picture, faces: 1, swapped: true });
});
`;

/** Returns the URL from which a thread of this source starts. */
export function threadEntry(text = PLAIN_THREAD): URL {
  return new URL(`data:text/javascript,${encodeURIComponent(text)}`);
}
