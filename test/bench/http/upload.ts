import { mkdtemp, rm } from 'node:fs/promises';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type BenchContext, figure, limitRow, quantile, ratioRow, type Section } from '../lib/section.ts';
import { startPeer } from './peer-process.ts';
import { residentBytesOf } from './process-use.ts';

const MIB = 1024 * 1024;
/** Size of the largest upload, in bytes. */
const FILE_BYTES = 500 * MIB;
const ROUNDS = 3;
const GOAL_RATIO = 0.6;
const GOAL_GROWTH_MIB = 64;
const BOUNDARY = 'semblance-bench-boundary';

/**
 * Compares POST /uploads of the largest video with bare node:http that writes the same body to a file on the same
 * disk. Ours also parses the form, checks the type, hashes, syncs to disk and records the upload.
 */
export async function runUploadBench({ stack, say }: BenchContext): Promise<Section> {
  const folder = await mkdtemp(join(tmpdir(), 'semblance-bench-'));
  const peer = await startPeer('raw-sink.ts', [folder]);
  try {
    const account = await stack.newAccount();
    const headers = { authorization: `Bearer ${account.apiKey}` };
    const gateway = stack.read().services.gateway ?? 0;
    const [ours, theirs, growth]: [number[], number[], number[]] = [[], [], []];
    say('uploads: warming up');
    await send(`${account.api.baseUrl}/uploads`, headers, 50 * MIB);
    await send(peer.origin, {}, 50 * MIB);
    for (let round = 1; round <= ROUNDS; round++) {
      say(`uploads: round ${round} of ${ROUNDS}, ${FILE_BYTES / MIB} MiB each`);
      theirs.push(await send(peer.origin, {}, FILE_BYTES));
      const memory = watchMemory(gateway);
      ours.push(await send(`${account.api.baseUrl}/uploads`, headers, FILE_BYTES));
      growth.push(memory.end());
    }
    const perSecond = (times: number[]) => FILE_BYTES / MIB / quantile(times, 0.5);
    return {
      title: 'Uploading a video',
      rows: [
        ratioRow({
          name: `POST /uploads, ${FILE_BYTES / MIB} MiB`,
          ours: perSecond(ours),
          peer: perSecond(theirs),
          unit: 'MiB/s',
          peerName: 'node:http to a file',
          atLeast: GOAL_RATIO,
        }),
        limitRow({
          name: "growth of the gateway's resident memory",
          ours: Math.max(...growth) / MIB,
          limit: GOAL_GROWTH_MIB,
          unit: 'MiB',
        }),
      ],
      notes: [
        `Medians of ${ROUNDS} turns; the growth is the largest of them, from before an upload to its peak. The client runs on the same cores.`,
        `Times: ours ${ours.map((s) => `${figure(s)} s`).join(', ')}; peer ${theirs.map((s) => `${figure(s)} s`).join(', ')}. The peer neither parses, hashes nor syncs.`,
      ],
    };
  } finally {
    await peer.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

/** Watches the resident memory of a process. `end` returns by how much its peak exceeds its beginning. */
function watchMemory(pid: number): { end(): number } {
  const start = residentBytesOf(pid) ?? Number.NaN;
  let peak = start;
  const timer = setInterval(() => {
    peak = Math.max(peak, residentBytesOf(pid) ?? Number.NaN);
  }, 20);
  return {
    end() {
      clearInterval(timer);
      return peak - start;
    },
  };
}

/**
 * Sends a form with a video of `fileBytes` bytes.
 * @returns seconds until the answer was read
 */
function send(url: string, headers: Record<string, string>, fileBytes: number): Promise<number> {
  const head = Buffer.from(
    `--${BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="bench.mp4"\r\nContent-Type: video/mp4\r\n\r\n`,
  );
  const tail = Buffer.from(`\r\n--${BOUNDARY}--\r\n`);
  const first = Buffer.alloc(64 * 1024);
  // The content is as random as compressed video, so that neither search nor disk has it easy. Its beginning tells
  // its type.
  for (let i = 0; i < first.length; i++) first[i] = Math.random() * 256;
  const rest = Buffer.from(first);
  first.write('\0\0\0\x18ftypisom\0\0\x02\0isomiso2', 'latin1');
  const length = head.length + fileBytes + tail.length;
  const started = performance.now();
  return new Promise((resolve, reject) => {
    const sending = request(
      url,
      {
        method: 'POST',
        headers: {
          ...headers,
          'content-type': `multipart/form-data; boundary=${BOUNDARY}`,
          'content-length': length,
        },
      },
      (response) => {
        let text = '';
        response.on('data', (chunk) => (text += chunk));
        response.on('end', () =>
          response.statusCode === 200
            ? resolve((performance.now() - started) / 1000)
            : reject(new Error(`the upload was answered ${response.statusCode} ${text}`)),
        );
      },
    );
    sending.on('error', reject);
    sending.write(head);
    let sent = 0;
    const more = () => {
      while (sent < fileBytes) {
        const chunk = sent === 0 ? first : rest;
        const part = fileBytes - sent < chunk.length ? chunk.subarray(0, fileBytes - sent) : chunk;
        sent += part.length;
        if (!sending.write(part)) {
          sending.once('drain', more);
          return;
        }
      }
      sending.end(tail);
    };
    more();
  });
}
