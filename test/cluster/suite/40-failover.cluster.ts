import { eventually } from '@semblance/testkit/stack/eventually';
import { conditionOf } from '@semblance/testkit/stack/kubectl';
import { longPortrait } from '@semblance/testkit/stack/media';
import { renderJob, swapInputs, untilPhase, whileRunning } from '@semblance/testkit/stack/render-jobs';
import { beforeAll, expect, test } from 'vitest';
import { cluster, kubectl, leader, pods, untilReady, upgrade, withApi } from './release.ts';

const long = await longPortrait();
const begin = async () => {
  const job = renderJob(await withApi((api) => swapInputs(api, long)));
  await kubectl.apply(job);
  return job.metadata.name;
};

beforeAll(async () => {
  await upgrade(['--set=operator.replicas=2']);
  await untilReady();
});

/** Ends the leader while one job runs, and creates another job at that moment. Each job must have one attempt. */
async function survives(end: (pod: string) => Promise<void>): Promise<number> {
  const inputs = await withApi((api) => swapInputs(api));
  const former = await leader();
  let endedAt = 0;
  const next = renderJob(inputs);
  const running = await whileRunning(kubectl, begin, async (name) => {
    endedAt = Date.now();
    await end(former);
    await kubectl.apply(next);
    return name;
  });
  // The agent may have no slot for the job yet; the operator's statement about that counts too.
  await eventually('word of the next job', async () =>
    conditionOf(await kubectl.renderJob(next.metadata.name), 'Ready') ? true : undefined,
  );
  const took = Date.now() - endedAt;
  for (const name of [running, next.metadata.name])
    expect((await untilPhase(kubectl, name, 'Succeeded')).status).toMatchObject({ attempt: 1 });
  return took;
}

test('the operator that leads is asked to end: the other one goes on', async () => {
  const former = await leader();
  const took = await survives((pod) => kubectl(['delete', 'pod', pod, '--wait=false']).then(() => {}));
  expect(await leader()).not.toBe(former);
  console.log(`a new job is seen to ${took} ms after kubectl was asked to delete the leader`);
});

test('the operator that leads is killed: no job is lost or run twice', async () => {
  await kubectl(['rollout', 'status', 'deployment/semblance-operator', '--timeout=55s']);
  const took = await survives(async (name) => {
    const pod = (await pods('operator')).find(({ metadata }) => metadata.name === name);
    const id = pod?.status.containerStatuses?.[0]?.containerID?.replace(/^.*:\/\//, '');
    if (!id) throw new Error(`${name} has no container`);
    await cluster.kill(id);
  });
  console.log(`a new job is seen to ${took} ms after SIGKILL of the leader`);
});
