// Receives webhooks: SECRET=… node webhook-receiver.mjs PORT. The secret is the account's, as the service showed it.
import { createHmac, timingSafeEqual } from 'node:crypto';
import { createServer } from 'node:http';

const { SECRET } = process.env;
const port = Number(process.argv[2]);
if (!SECRET || !Number.isInteger(port)) {
  console.error('usage: SECRET=… node webhook-receiver.mjs PORT');
  process.exit(2);
}
const MAX_AGE_SEC = 300;
const MAX_BYTES = 1 << 20;
/**
 * Ids of handled deliveries. A real service keeps them in its database: a delivery may come again after a restart.
 */
const taken = new Set();

/**
 * Returns whether the header signs exactly these bytes at this time. While a secret is replaced, the next one signs in
 * a header of its own, so a receiver may change its secret at any time before the next one is promoted.
 */
function isSigned(header, body) {
  const parts = (header ?? '').split(',').map((part) => part.split('='));
  const time = parts.find(([name]) => name === 't')?.[1];
  if (!/^\d+$/.test(time ?? '') || Math.abs(Date.now() / 1000 - Number(time)) > MAX_AGE_SEC) return false;
  const wanted = createHmac('sha256', SECRET).update(`${time}.`).update(body).digest();
  return parts.some(([name, hex]) => {
    const given = Buffer.from(name === 'v1' ? (hex ?? '') : '', 'hex');
    return given.length === wanted.length && timingSafeEqual(given, wanted);
  });
}

const server = createServer(async (request, response) => {
  const chunks = [];
  let bytes = 0;
  for await (const chunk of request) {
    bytes += chunk.length;
    if (bytes > MAX_BYTES) return response.writeHead(413).end();
    chunks.push(chunk);
  }
  const body = Buffer.concat(chunks);
  const { 'service-signature': signature, 'service-signature-next': next } = request.headers;
  if (request.method !== 'POST' || !(isSigned(signature, body) || isSigned(next, body)))
    return response.writeHead(401).end();
  // Answer first: a delivery that takes more than 10 s counts as failed and is sent again.
  response.writeHead(204).end();
  const { event, delivery_id, data } = JSON.parse(body);
  if (taken.has(delivery_id)) return;
  taken.add(delivery_id);
  console.log(
    JSON.stringify({ event, delivery_id, job: data.id, status: data.status, output_url: data.output_url }),
  );
});
server.listen(port, () => console.log(`listening on ${server.address().port}`));
