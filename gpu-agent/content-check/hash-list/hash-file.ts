/**
 * `node gpu-agent/content-check/hash-list/hash-file.ts FILE...` prints the hash list lines of these files. A picture has one line, a video one for each second that differs; other files have their SHA-256.
 */
import { basename } from 'node:path';
import { describeError } from '@semblance/common/errors';
import type { MediaKind } from '@semblance/engine-api/capabilities';
import { LEAST_QUALITY, matches, parseEntry } from './entries.ts';
import { createFingerprints } from './fingerprints.ts';

const KINDS: readonly [RegExp, MediaKind][] = [
  [/\.(jpe?g|png|webp|gif|tiff?|avif)$/i, 'image'],
  [/\.(mp4|m4v|mov|webm|mkv|avi)$/i, 'video'],
];
/** Distance in bits within which an earlier line covers a frame. */
const SAME = 10;

const fingerprints = createFingerprints();
const { signal } = new AbortController();
for (const file of process.argv.slice(2)) {
  const name = basename(file);
  try {
    console.log(`sha256 ${await fingerprints.sha256(file, signal)} ${name}`);
    const kind = KINDS.find(([pattern]) => pattern.test(file))?.[1];
    const lines: string[] = [];
    if (kind) {
      for await (const seen of fingerprints.perceptual(file, kind, signal)) {
        if (seen[0].quality < LEAST_QUALITY || matches(lines.map(parseEntry), seen, SAME)) continue;
        lines.push(`pdq ${Buffer.from(seen[0].bits).toString('hex')} ${name}`);
      }
    }
    for (const line of lines) console.log(line);
    if (kind && lines.length === 0) console.error(`${name}: too little in it for a perceptual hash`);
  } catch (error) {
    console.error(`${name}: ${describeError(error)}`);
    process.exitCode = 1;
  }
}
await fingerprints.close();
