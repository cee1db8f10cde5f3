// Swaps a face live: node swap.mjs PROMPT OUT_FOLDER IN.jpg…, with BASE and KEY in the environment. PROMPT names
// the face: a key of an upload, "character: NAME", or - for the default. Sends the pictures in a loop for five
// seconds, as a camera would, and writes each answer to OUT_FOLDER.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { WebSocket } from 'ws';

const { BASE, KEY } = process.env;
const [prompt, folder, ...paths] = process.argv.slice(2);
if (!BASE || !KEY || paths.length === 0) {
  console.error('usage: BASE=… KEY=… node swap.mjs PROMPT OUT_FOLDER IN.jpg…');
  process.exit(2);
}
const STREAM_SEC = 5;

const response = await fetch(`${BASE}/full-live-swap/session`, {
  method: 'POST',
  headers: { Authorization: `Bearer ${KEY}`, 'Content-Type': 'application/json' },
  body: JSON.stringify({ duration_minutes: 1, ...(prompt !== '-' && { prompt }) }),
});
const session = await response.json();
if (!response.ok) throw new Error(`${session.error.code}: ${session.error.message}`);

mkdirSync(folder, { recursive: true });
const pictures = paths.map((path) => readFileSync(path));
let [sent, received] = [0, 0];
const socket = new WebSocket(`${session.stream_url}?session_token=${session.session_token}`);
socket.on('message', (data, isBinary) => {
  if (!isBinary) return film(JSON.parse(data));
  received++;
  writeFileSync(join(folder, `${String(received).padStart(5, '0')}.jpg`), data);
});
socket.on('close', (code, reason) => {
  console.log(
    `${session.session_id} ended with ${code} ${reason}; ${received} of ${sent} pictures in ${folder}`,
  );
  process.exitCode = received > 0 ? 0 : 1;
});

/** Sends pictures at the rate of the session. A picture that a newer one overtakes is not answered. */
function film({ fps, note }) {
  if (note) console.log(note);
  const timer = setInterval(() => {
    if (sent >= fps * STREAM_SEC || socket.readyState !== WebSocket.OPEN) {
      clearInterval(timer);
      // Half a second lets the answers under way arrive.
      setTimeout(() => socket.close(1000), 500);
      return;
    }
    socket.send(pictures[sent++ % pictures.length]);
  }, 1000 / fps);
}
