/**
 * Runs the conformance suite through the Python client: `npm run conformance:python -- [WORD…]`. Requests of the suite
 * that a client can make go through it; then it prints how often each of its methods was used.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { installClient } from './installed.ts';

const ROOT = join(import.meta.dirname, '../..');
/** Without what is about single bytes on the wire, links, streams and sockets. */
const FILES =
  'batches billing cancel envelope estimate faces idempotency inspection job-record keys-and-caps media-deletion own-jobs own-sessions photo-swap-submit receipts sessions uploads usage webhook-endpoints webhooks';
/** Methods without whose use the run shows nothing. */
const NEEDED = [
  'submit',
  'upload',
  'get_job',
  'cancel_job',
  'submit_batch',
  'open_voice_swap',
  'get_balance',
];

const words = process.argv.slice(2);
const files = (words.length > 0 ? words : FILES.split(' ')).map((word) => `test/conformance/${word}.test.ts`);
const document = join(ROOT, 'clients/openapi.json');
const client = await installClient(await readFile(document, 'utf8'));
const bridge = spawn(client.python, [join(client.dir, 'bridge.py'), document], {
  env: client.env,
  stdio: ['ignore', 'pipe', 'inherit'],
});
try {
  const [address] = await once(createInterface(bridge.stdout), 'line');
  const suite = spawn(join(ROOT, 'node_modules/.bin/vitest'), ['run', ...files], {
    cwd: ROOT,
    env: { ...process.env, SEMBLANCE_TEST_CLIENT: address },
    stdio: 'inherit',
  });
  const [code] = await once(suite, 'exit');
  const used = (await (await fetch(address)).json()) as Record<string, number>;
  for (const [name, times] of Object.entries(used).sort(([, a], [, b]) => b - a))
    console.log(
      String(times).padStart(7),
      name === 'request' ? 'request (no method can express them)' : name,
    );
  const unused = words.length > 0 ? [] : NEEDED.filter((name) => !used[name]);
  if (unused.length > 0) console.error(`never used: ${unused.join(', ')}`);
  process.exitCode = code === 0 && unused.length === 0 ? 0 : 1;
} finally {
  bridge.kill();
  await client.close();
}
