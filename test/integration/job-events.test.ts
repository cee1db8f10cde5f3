/** Followers of a job, over real servers, while gateways and control planes come and go. */

import { silentLogger } from '@semblance/common/logging';
import { type Gateway, startGateway } from '@semblance/gateway/gateway';
import { freePort } from '@semblance/local/process/ports';
import {
  makeAccount,
  setStatus,
  startTestSystem,
  succeed,
  type TestSystem,
  untilRenderJob,
} from '@semblance/testkit/control-plane/control-plane';
import { apiOf } from '@semblance/testkit/stack/api';
import { eventually } from '@semblance/testkit/stack/eventually';
import { type Followed, follow, statusesOf } from '@semblance/testkit/stack/follow';
import { ADMIRAL } from '@semblance/testkit/stack/media';
import { Registry } from 'prom-client';
import { afterAll, beforeAll, expect, test } from 'vitest';

let system: TestSystem;
const gateways: Gateway[] = [];

async function gatewayAt(controlPort: number): Promise<string> {
  const gateway = await startGateway({
    listen: { host: '127.0.0.1', port: 0 },
    controlAddress: `127.0.0.1:${controlPort}`,
    store: system.objects,
    logger: silentLogger(),
    registry: new Registry(),
    publicUrl: 'http://gateway.test',
    // Longer than any standstill of the machine.
    timing: { control: 30_000 },
  });
  gateways.push(gateway);
  return `http://127.0.0.1:${gateway.port}/api/v1`;
}

beforeAll(async () => {
  system = await startTestSystem();
});
afterAll(async () => {
  for (const gateway of gateways) await gateway.close();
  await system?.close();
});

const told = (stream: Followed, what: string, is: (stream: Followed) => boolean) =>
  eventually(what, () => (is(stream) ? true : undefined), { everyMs: 10 });

test('gateways end, control planes die and others take over: every status once, to each client', async () => {
  // No other process takes this port until the next control plane listens there.
  const listen = { host: '127.0.0.1', port: await freePort() };
  const doomed = await system.startPlane({ listen });
  const { port } = doomed;
  const [one, two] = [await gatewayAt(port), await gatewayAt(system.plane.port)];
  const { apiKey } = await makeAccount(system, 10);
  const [first, second] = [apiOf({ baseUrl: one, apiKey }), apiOf({ baseUrl: two, apiKey })];
  const key = await first.upload(ADMIRAL);
  const { id } = await first.swap({ image_key: key, face_key: key });
  const path = `/jobs/${id}/events`;
  const [stays, moves] = [await follow(first, path), await follow(second, path)];
  for (const stream of [stays, moves]) await told(stream, 'queued', ({ events }) => events.length > 0);

  const renderJob = await untilRenderJob(system, id);
  const running = { phase: 'Running', attempt: 1, progress: '40%' } as const;
  await setStatus(system, renderJob, running);
  const isAt40 = ({ events }: Followed) => events.at(-1)?.data.progress === 0.4;
  for (const stream of [stays, moves]) await told(stream, '40 %', isAt40);

  // The gateway of one client ends cleanly. The client follows at another gateway, from its last event id.
  await gateways[1]?.close();
  await moves.ended;
  const resumed = await follow(first, path, { 'last-event-id': moves.events.at(-1)?.id ?? '' });

  // The control plane behind that gateway ends, and the job progresses meanwhile.
  await doomed.close();
  await setStatus(system, renderJob, { ...running, progress: '80%' });
  await succeed(system, renderJob);
  const elsewhere = apiOf({ baseUrl: await gatewayAt(system.plane.port), apiKey });
  await elsewhere.finished(id);
  expect(statusesOf(stays.events), 'told of nothing yet').toEqual(['queued', 'processing']);

  await system.startPlane({ listen });
  await Promise.all([stays.ended, resumed.ended]);
  expect(statusesOf(stays.events)).toEqual(['queued', 'processing', 'succeeded']);
  expect(statusesOf([...moves.events, ...resumed.events])).toEqual(['queued', 'processing', 'succeeded']);
  const all = [...moves.events, ...resumed.events].map((event) => event.id);
  expect(new Set(all).size, 'nothing twice').toBe(all.length);
  const { charged_usd } = await elsewhere.job(id);
  for (const stream of [stays, resumed])
    expect(stream.events.at(-1)?.data).toMatchObject({ id, charged_usd });
});
