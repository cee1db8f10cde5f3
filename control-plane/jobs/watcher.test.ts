import { newId } from '@semblance/common/ids';
import { RENDERJOB_RESOURCE } from '@semblance/crds/gen/renderjobs';
import type { ObjectStore } from '@semblance/objects/store';
import {
  connectTo,
  makeAccount,
  photoSwap,
  startTestSystem,
  succeed,
  type TestClient,
  type TestSystem,
  untilJob,
  untilRenderJob,
  untilTrue,
  upload,
} from '@semblance/testkit/control-plane/control-plane';
import { afterAll, beforeAll, expect, test } from 'vitest';

let system: TestSystem;
// No periodic scan helps.
beforeAll(async () => {
  system = await startTestSystem({ jobSweepMs: 600_000 });
});
afterAll(() => system.close());

/** The system's store, with a record of the requested outputs. */
function overheard() {
  const { objects } = system;
  const asked: string[] = [];
  const store: ObjectStore = {
    put: (...of) => objects.put(...of),
    delete: (...of) => objects.delete(...of),
    list: (...of) => objects.list(...of),
    read: (...of) => objects.read(...of),
    signGet: (...of) => objects.signGet(...of),
    signPut: (...of) => objects.signPut(...of),
    info(key) {
      asked.push(key);
      return objects.info(key);
    },
  };
  return { store, asked };
}

test('a control plane that starts settles what finished meanwhile, and looks at nothing that was settled before', async () => {
  const { caller } = await makeAccount(system);
  async function submitted(client: TestClient) {
    const { fileKey } = await upload({ client, objects: system.objects }, caller);
    const { id } = await client.ask(
      client.control.submitJob.bind(client.control),
      photoSwap(caller, fileKey),
    );
    return untilRenderJob(system, id);
  }
  const isSettled = async (name = '') => {
    const [row] = await system.database.sql`select status from jobs where id = ${name}`;
    return row?.status === 'succeeded';
  };
  const { store, asked } = overheard();
  const ofJob = (name = '') => asked.filter((key) => key.includes(name));

  const before = await submitted(system.client);
  await succeed(system, before);
  await untilTrue(() => isSettled(before.metadata.name), 'the first is settled');
  const meanwhile = await submitted(system.client);
  await system.plane.close();
  await succeed(system, meanwhile);

  const plane = await system.startPlane({ objects: store });
  await untilTrue(() => isSettled(meanwhile.metadata.name), 'what finished meanwhile is settled');
  // For the output, and for its small picture.
  expect([asked.length, ofJob(meanwhile.metadata.name).length]).toEqual([2, 2]);

  // The watcher sees a change of a settled one before the next one that finishes.
  const { name = '', namespace } = before.metadata;
  await system.kube.mergePatch(
    RENDERJOB_RESOURCE,
    { name, namespace },
    { metadata: { labels: { 'test/seen': 'again' } } },
  );
  const client = connectTo(plane.port, system.adminToken);
  const after = await submitted(client);
  await succeed(system, after);
  await untilJob({ client }, caller, after.metadata.name ?? '', ({ status }) => status === 'succeeded');
  expect([ofJob(name).length, ofJob(after.metadata.name).length]).toEqual([0, 2]);
});

test('a job from before the clock was set back is looked after, too', async () => {
  const plane = await system.startPlane({ jobSweepMs: 200 });
  const client = connectTo(plane.port, system.adminToken);
  const { caller, accountId } = await makeAccount({ client });
  const { fileKey } = await upload({ client, objects: system.objects }, caller);
  const id = newId('job-');
  const request = {
    job: id,
    account: accountId,
    capability: 'face-swap-image',
    parameters: {},
    body_sha256: '00',
    inputs: ['image', 'face'].map((role) => ({ role, key: fileKey, kind: 'image' })),
  };
  // Without the debt of its RenderJob, which only a scan finds.
  await system.database.sql.begin(async (tx) => {
    await tx`select * from submit_jobs(${tx.json([request])}::jsonb)`;
    await tx`delete from outbox where job_id = ${id}`;
    await tx`update jobs set created_at = created_at + interval '1 hour' where id = ${id}`;
  });
  expect((await untilRenderJob(system, id)).metadata.name).toBe(id);
});
