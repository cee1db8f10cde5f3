/** A bare `ws` server that sends every message back: the peer of the streams of sessions. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { WebSocketServer } from 'ws';

const server = createServer();
new WebSocketServer({ server, perMessageDeflate: false }).on('connection', (ws) => {
  ws.send('{"sample_rate":48000,"chunk_frames":960}');
  ws.on('message', (data) => ws.send(data));
});
server.listen(0, '127.0.0.1', () => console.log((server.address() as AddressInfo).port));
process.stdin.resume().on('end', () => process.exit(0));
