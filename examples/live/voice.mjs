// Converts speech live: node voice.mjs VOICE IN.wav OUT.wav, with BASE and KEY in the environment. VOICE is an id of
// GET /voices, or - for none. IN.wav is mono, 16 bits, at the rate that the first message of the socket states.
import { readFileSync, writeFileSync } from 'node:fs';
import { WebSocket } from 'ws';

const { BASE, KEY } = process.env;
const [voice, from, to] = process.argv.slice(2);
if (!BASE || !KEY || !to) {
  console.error('usage: BASE=… KEY=… node voice.mjs VOICE IN.wav OUT.wav');
  process.exit(2);
}

/** Returns the samples of a WAV file and its sample rate in Hz. */
function readWav(path) {
  const file = readFileSync(path);
  const data = file.indexOf('data') + 8;
  const [channels, rate, bits] = [file.readUInt16LE(22), file.readUInt32LE(24), file.readUInt16LE(34)];
  if (channels !== 1 || bits !== 16) throw new Error(`${path} is not mono with 16 bits`);
  return { rate, samples: file.subarray(data, data + file.readUInt32LE(data - 4)) };
}

function writeWav(path, rate, samples) {
  const head = Buffer.alloc(44);
  head.write('RIFF', 0);
  head.writeUInt32LE(36 + samples.length, 4);
  head.write('WAVEfmt ', 8);
  head.writeUInt32LE(16, 16);
  head.writeUInt16LE(1, 20);
  head.writeUInt16LE(1, 22);
  head.writeUInt32LE(rate, 24);
  head.writeUInt32LE(rate * 2, 28);
  head.writeUInt16LE(2, 32);
  head.writeUInt16LE(16, 34);
  head.write('data', 36);
  head.writeUInt32LE(samples.length, 40);
  writeFileSync(path, Buffer.concat([head, samples]));
}

const response = await fetch(`${BASE}/voice/session`, {
  method: 'POST',
  headers: { Authorization: `Bearer ${KEY}`, 'Content-Type': 'application/json' },
  body: JSON.stringify({ duration_minutes: 5, voice_profile_id: voice === '-' ? null : voice }),
});
const session = await response.json();
if (!response.ok) throw new Error(`${session.error.code}: ${session.error.message}`);

const { rate, samples } = readWav(from);
const received = [];
let bytes = 0;
const socket = new WebSocket(`${session.stream_url}?session_token=${session.session_token}`);
socket.on('message', (data, isBinary) => {
  if (!isBinary) return speak(JSON.parse(data));
  received.push(data);
  bytes += data.length;
  // Every sample comes back, in order.
  if (bytes >= samples.length) socket.close(1000);
});
socket.on('close', (code, reason) => {
  writeWav(to, rate, Buffer.concat(received));
  console.log(
    `${session.session_id} ended with ${code} ${reason}; ${bytes} of ${samples.length} bytes in ${to}`,
  );
  process.exitCode = bytes >= samples.length ? 0 : 1;
});

/** Sends the sound at the speed of speech. The service cuts off a client that sends faster. */
function speak({ sample_rate, chunk_frames }) {
  if (sample_rate !== rate) {
    console.error(`${from} has ${rate} Hz; the session takes ${sample_rate}`);
    return socket.close(1000);
  }
  const step = chunk_frames * 2;
  const began = performance.now();
  let sent = 0;
  const timer = setInterval(() => {
    const due = ((performance.now() - began) / 1000) * sample_rate * 2;
    for (; sent < samples.length && sent <= due; sent += step)
      socket.send(samples.subarray(sent, sent + step));
    if (sent >= samples.length || socket.readyState !== WebSocket.OPEN) clearInterval(timer);
  }, 20);
}
