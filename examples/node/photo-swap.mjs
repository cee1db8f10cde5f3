// Swaps a face between two pictures: node photo-swap.mjs BASE.jpg FACE.jpg OUT.jpg, with BASE and KEY in the environment.
import { randomUUID } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { basename } from 'node:path';

const { BASE, KEY } = process.env;
const [imagePath, facePath, outPath] = process.argv.slice(2);
if (!BASE || !KEY || !outPath) {
  console.error('usage: BASE=… KEY=… node photo-swap.mjs BASE.jpg FACE.jpg OUT.jpg');
  process.exit(2);
}

/** Calls the API. Throws an error with the message of the service. */
async function call(method, path, { json, form, headers = {} } = {}) {
  const response = await fetch(`${BASE}${path}`, {
    method,
    headers: {
      Authorization: `Bearer ${KEY}`,
      ...(json && { 'Content-Type': 'application/json' }),
      ...headers,
    },
    body: json ? JSON.stringify(json) : form,
  });
  if (response.ok) return response;
  const { error } = await response.json();
  throw new Error(`${error.code}: ${error.message}`);
}

async function upload(path) {
  const form = new FormData();
  form.append('file', new Blob([await readFile(path)]), basename(path));
  const { file_key } = await (await call('POST', '/uploads', { form })).json();
  return file_key;
}

/**
 * Follows a job by its events and returns its record at the end. If the stream breaks, the next one starts with the
 * current status.
 */
async function finished(id) {
  for (;;) {
    const { body } = await call('GET', `/jobs/${id}/events`, { headers: { Accept: 'text/event-stream' } });
    let text = '';
    for await (const chunk of body.pipeThrough(new TextDecoderStream())) {
      text += chunk;
      // A status event has the job record as its data.
      const ended = /"status": ?"(?:succeeded|failed)"/.test(text);
      if (ended) return (await call('GET', `/jobs/${id}`)).json();
    }
  }
}

const swap = { image_key: await upload(imagePath), face_key: await upload(facePath) };
const price = await (
  await call('POST', '/estimate', { json: { capability: 'face-swap-image', ...swap } })
).json();
console.log('estimate', price);

// The same Idempotency-Key sent twice makes one job and one charge, so keep it until the answer has come.
const headers = { 'Idempotency-Key': randomUUID() };
const { id } = await (await call('POST', '/face-swap-image', { json: swap, headers })).json();
console.log('submitted', id);

const job = await finished(id);
if (job.status === 'failed') throw new Error(`${job.error.code}: ${job.error.message}`);
// The link is signed, so it needs no key.
const output = await fetch(job.output_url);
if (!output.ok) throw new Error(`the output answers ${output.status}`);
await writeFile(outPath, Buffer.from(await output.arrayBuffer()));
console.log('charged', job.charged_usd, 'USD; written to', outPath);
