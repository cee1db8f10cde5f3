/** Bare node:http server that writes each request body to a file in the given folder: the peer of an upload. */
import { createWriteStream } from 'node:fs';
import { rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';

const folder = process.argv[2] ?? '.';
let count = 0;
const server = createServer(async (request, response) => {
  const path = join(folder, `raw-${count++}`);
  try {
    await pipeline(request, createWriteStream(path));
    response.end('stored');
  } catch (error) {
    response.writeHead(500).end(String(error));
  } finally {
    await rm(path, { force: true });
  }
});
server.requestTimeout = 0;
server.listen(0, '127.0.0.1', () => console.log((server.address() as AddressInfo).port));
process.stdin.resume().on('end', () => process.exit(0));
