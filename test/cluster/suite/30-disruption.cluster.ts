import { eventually } from '@semblance/testkit/stack/eventually';
import { longPortrait } from '@semblance/testkit/stack/media';
import { renderJob, swapInputs, untilPhase, whileRunning } from '@semblance/testkit/stack/render-jobs';
import { afterAll, expect, test } from 'vitest';
import { agents, cluster, kubectl, list, type Pod, pods, readiness, untilReady, withApi } from './release.ts';

afterAll(async () => {
  await kubectl(['uncordon', cluster.node]);
});

const long = await longPortrait();
const begin = async () => {
  const job = renderJob(await withApi((api) => swapInputs(api, long)));
  await kubectl.apply(job);
  return job.metadata.name;
};

test('a cordoned node gets no new work until it is uncordoned, and finishes what it has', async () => {
  await untilReady();
  const inputs = await withApi((api) => swapInputs(api));
  const running = await whileRunning(kubectl, begin, async (name) => {
    await kubectl(['cordon', cluster.node]);
    return name;
  });
  await eventually('agents that are not ready', async () => {
    const known = await agents();
    return known.every((agent) => readiness(agent).reason === 'NodeCordoned') || undefined;
  });
  const job = renderJob(inputs);
  await kubectl.apply(job);
  expect((await untilPhase(kubectl, running, 'Succeeded')).status).toMatchObject({ attempt: 1 });
  const waiting = await kubectl.renderJob(job.metadata.name);
  expect(waiting?.status?.phase).not.toBe('Running');
  expect(waiting?.status?.attempt ?? 0).toBe(0);
  await kubectl(['uncordon', cluster.node]);
  await untilPhase(kubectl, job.metadata.name, 'Succeeded');
});

test('kubectl drain: the work finishes or goes to the next agent, and is no failure of the job', async () => {
  await untilReady();
  const before = (await pods('agent')).map(({ metadata }) => metadata.uid);
  const name = await whileRunning(kubectl, begin, async (running) => {
    await kubectl([
      ...['drain', cluster.node, '--ignore-daemonsets', '--delete-emptydir-data', '--timeout=50s'],
      '--pod-selector=app.kubernetes.io/component=agent',
    ]);
    return running;
  });
  const left = (await pods('agent')).filter(({ metadata }) => before.includes(metadata.uid));
  expect(left.filter(({ metadata }) => !metadata.deletionTimestamp)).toEqual([]);
  await kubectl(['uncordon', cluster.node]);
  await untilReady();
  expect((await untilPhase(kubectl, name, 'Succeeded')).status?.failure).toBeUndefined();
});

test('an agent Pod that is deleted is replaced, and its job succeeds', async () => {
  await untilReady();
  const name = await whileRunning(kubectl, begin, async (running) => {
    const agent = (await kubectl.renderJob(running))?.status?.agent;
    if (!agent) return undefined;
    await kubectl(['delete', 'pod', agent, '--wait=false']);
    return running;
  });
  await untilPhase(kubectl, name, 'Succeeded');
  await untilReady();
  expect((await list<Pod>('pods', 'app.kubernetes.io/component=agent')).length).toBeGreaterThan(0);
});
