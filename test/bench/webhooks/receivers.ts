/**
 * Endpoints of integrators, in a separate process: some answer at once, and some never answer. Prints their ports
 * as one line of JSON. Answers each line on standard input with a line of JSON. `count` gives the number of
 * deliveries; `report` gives when each came first, in Unix ms, and the number in all.
 */
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createInterface } from 'node:readline';

const [answering = 0, hanging = 0] = process.argv.slice(2).map(Number);
const first = new Map<string, number>();
let received = 0;

const answer: RequestListener = (request, response) => {
  request.resume();
  request.once('end', () => {
    const id = String(request.headers['service-delivery']);
    received++;
    if (!first.has(id)) first.set(id, performance.timeOrigin + performance.now());
    response.writeHead(204).end();
  });
};
const hang: RequestListener = (request) => void request.resume();

async function listen(listener: RequestListener): Promise<number> {
  const server: Server = createServer({ keepAliveTimeout: 60_000 }, listener);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return (server.address() as AddressInfo).port;
}
const listening = (count: number, listener: RequestListener) =>
  Promise.all(Array.from({ length: count }, () => listen(listener)));

const ports = { answering: await listening(answering, answer), hanging: await listening(hanging, hang) };
console.log(JSON.stringify(ports));

const lines = createInterface(process.stdin);
lines.on('line', (line) => {
  console.log(JSON.stringify(line === 'report' ? { received, first: [...first] } : { received }));
});
lines.on('close', () => process.exit());
