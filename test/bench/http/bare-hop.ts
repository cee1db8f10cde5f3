/**
 * One of several bare processes in a row. It passes each request on over TCP as one byte, and each answer back.
 * Arguments: the CPU to burn per request in microseconds, half before and half after; the port of the next process
 * (none for the last); and `http` if requests come over HTTP.
 */
import { createServer as createHttpServer, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

const [micros = '0', nextPort = '', kind = 'tcp'] = process.argv.slice(2);

function work(): void {
  const until = performance.now() + Number(micros) / 2_000;
  while (performance.now() < until);
}

/** Answers are sent in the order of their requests. */
const owed: (() => void)[] = [];
const answer = () => {
  work();
  owed.shift()?.();
};
const next = nextPort ? connect({ port: Number(nextPort), host: '127.0.0.1', noDelay: true }) : undefined;
next?.on('data', (answers) => {
  for (let i = 0; i < answers.length; i++) answer();
});
const take = (reply: () => void) => {
  owed.push(reply);
  work();
  if (next) next.write('.');
  else answer();
};

const server: Server =
  kind === 'http'
    ? createHttpServer((_, response: ServerResponse) => take(() => response.end('{}')))
    : createServer((socket: Socket) => {
        socket.setNoDelay(true);
        socket.on('data', (requests) => {
          for (let i = 0; i < requests.length; i++) take(() => socket.write('.'));
        });
      });
server.listen(0, '127.0.0.1', () => console.log((server.address() as AddressInfo).port));
process.stdin.resume().on('end', () => process.exit(0));
