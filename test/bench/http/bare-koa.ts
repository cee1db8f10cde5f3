/** A Koa router with one route that answers the JSON of its first argument: the peer of GET /jobs/{id}. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import Router from '@koa/router';
import Koa from 'koa';

const payload = JSON.parse(process.argv[2] ?? '{}') as unknown;
const router = new Router();
router.get('/api/v1/jobs/:job_id', (ctx) => {
  ctx.body = payload;
});
const app = new Koa();
app.use(router.routes());
const server = createServer(app.callback());
server.listen(0, '127.0.0.1', () => console.log((server.address() as AddressInfo).port));
process.stdin.resume().on('end', () => process.exit(0));
