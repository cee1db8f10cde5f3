import { status } from '@grpc/grpc-js';
import { EVENT_RESOURCE } from '@semblance/common/kube/index';
import { RENDERJOB_RESOURCE, type RenderJob } from '@semblance/crds/gen/renderjobs';
import type { Run } from '@semblance/testkit/operator/fake-agent';
import { createHarness, type Harness, readyOf as ready, waits } from '@semblance/testkit/operator/harness';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

let harness: Harness;

beforeEach(async () => {
  harness = await createHarness();
});

afterEach(async () => {
  await harness.close();
});

const phase = (name: string) => (job: RenderJob) => job.status?.phase === name;
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const forever = () => {};

/** Creates a script that holds every run until the test ends it. */
function heldRuns() {
  const runs: Run[] = [];
  return { runs, script: (run: Run) => void runs.push(run) };
}

it('is not ready from the moment it is asked to end', async () => {
  const operator = await harness.operator();
  const readyz = () =>
    fetch(`http://127.0.0.1:${operator.healthPort}/readyz`).then(
      ({ status }) => status,
      () => 'not there any more',
    );
  await expect.poll(readyz).toBe(200);
  const closed = operator.close();
  expect(await readyz()).not.toBe(200);
  await closed;
});

describe('a job', () => {
  it('goes to an agent, reports its progress and ends with an output', async () => {
    const agent = await harness.agent({
      name: 'one',
      async script(run) {
        run.progress(0.425, 'swap');
        await pause(100);
        run.succeed();
      },
    });
    const operator = await harness.operator();
    const created = await harness.job('happy');
    const done = await harness.until('happy', phase('Succeeded'));

    expect(done.status).toMatchObject({
      attempt: 1,
      agent: 'one',
      agentIncarnation: agent.incarnation,
      progress: '100%',
      observedGeneration: 1,
      output: { key: `out/${created.metadata.uid}/1.jpg`, contentType: 'image/jpeg', milliUnits: 1000 },
    });
    expect(ready(done)).toMatchObject({ reason: 'Succeeded', status: 'True' });
    expect(done.status?.conditions).toContainEqual(
      expect.objectContaining({ type: 'Complete', status: 'True' }),
    );
    const [start] = agent.starts;
    expect(start?.inputs.image).toMatchObject({
      url: 'http://objects.test/api/test/base.jpg?signed',
      key: 'api/test/base.jpg',
    });
    expect(start?.sinks.map(({ contentType }) => contentType)).toEqual([
      'image/jpeg',
      'image/png',
      'image/webp',
    ]);
    expect(agent.starts).toHaveLength(1);
    await harness.until('happy', (job) => (job.metadata.finalizers ?? []).length === 0);
    expect(agent.acknowledged).toContain(`${created.metadata.uid}/1`);
    expect(agent.held.size).toBe(0);
    const answer = await fetch(`http://127.0.0.1:${operator.healthPort}/readyz`);
    expect([answer.status, await answer.text()]).toEqual([200, expect.stringContaining('leader: ok')]);

    const { namespace, client } = harness;
    await expect
      .poll(async () => {
        const events = await client.list(EVENT_RESOURCE, { namespace });
        return events.items.filter(({ regarding }) => regarding.name === 'happy').map(({ reason }) => reason);
      })
      .toEqual(['Assigned', 'Succeeded']);

    // Nothing changes, so nothing is written.
    const { resourceVersion } = (await harness.get('happy')).metadata;
    await pause(300);
    expect((await harness.get('happy')).metadata.resourceVersion).toBe(resourceVersion);
  });

  it('brings the longest script to its agent as it was written', async () => {
    // 5,000 characters of four bytes each.
    const script = '\u{1f600}'.repeat(5_000);
    const agent = await harness.agent({
      name: 'one',
      capabilities: ['avatar'],
      script: (run: Run) => run.fail('processing_failed', 'heard'),
    });
    await harness.operator();
    await harness.job('long', {
      capability: 'avatar',
      inputs: [{ name: 'image', key: 'api/test/base.jpg' }],
      parameters: { script, voice_id: 'slt', language: 'en', output_resolution_p: '720' },
    });
    await harness.until('long', phase('Failed'));
    expect(agent.starts[0]?.parameters).toEqual({
      script,
      voice_id: 'slt',
      language: 'en',
      output_resolution_p: '720',
    });
  });

  it('fails with the code of its owner and is not tried again', async () => {
    const agent = await harness.agent({
      name: 'one',
      script: (run) => run.fail('face_not_detected', 'No face in the input face.'),
    });
    await harness.operator();
    const { metadata } = await harness.job('faceless');
    const failed = await harness.until('faceless', phase('Failed'));
    expect(failed.status?.failure).toEqual({
      code: 'face_not_detected',
      message: 'No face in the input face.',
    });
    await harness.until('faceless', (job) => (job.metadata.finalizers ?? []).length === 0);
    expect(agent.starts).toHaveLength(1);
    expect(harness.objects.deleted).toContain(`out/${metadata.uid}/1.png`);
  });

  it('is tried again after interruptions, up to its backoffLimit', async () => {
    const agent = await harness.agent({
      name: 'one',
      script: (run) => run.interrupt('the store did not answer'),
    });
    const history = await harness.history();
    await harness.operator();
    await harness.job('unlucky', { backoffLimit: 1 });
    // The status shows the interruption for a second before the retry.
    await expect
      .poll(() => history('unlucky').map(({ status }) => status), { timeout: 30_000 })
      .toContainEqual(
        expect.objectContaining({
          interruptions: 1,
          conditions: expect.arrayContaining([
            expect.objectContaining({
              reason: 'Interrupted',
              message: expect.stringContaining('the store did not answer'),
            }),
          ]),
        }),
      );
    const failed = await harness.until('unlucky', phase('Failed'));
    expect(failed.status).toMatchObject({
      attempt: 2,
      interruptions: 2,
      failure: { code: 'processing_failed' },
    });
    expect(ready(failed)?.reason).toBe('BackoffLimitExceeded');
    const [first, second] = agent.starts;
    expect([first?.ref?.attempt, second?.ref?.attempt]).toEqual([1, 2]);
  });

  it('goes elsewhere after an interruption, and comes back when no other agent has room', async () => {
    const full = "The memory of the engine's device was full.";
    const interrupting = { slots: 4, script: (run: Run) => run.interrupt(full) };
    const first = await harness.agent({ name: 'a-full', ...interrupting });
    await harness.operator();
    await harness.job('moved', { backoffLimit: 2 });
    // With one agent there is no other choice, and one that comes later is taken although it has fewer slots.
    await expect.poll(() => first.starts.length, { timeout: 30_000 }).toBe(2);
    const second = await harness.agent({ name: 'b-free', slots: 1, script: (run) => run.succeed() });
    const done = await harness.until('moved', phase('Succeeded'));
    expect(done.status).toMatchObject({ attempt: 3, agent: 'b-free', interruptions: 2 });
    expect([first.starts.length, second.starts.length]).toEqual([2, 1]);
  });

  it('goes elsewhere when an agent will not take it on', async () => {
    const refusing = await harness.agent({ name: 'a-refusing', slots: 4, script: forever });
    refusing.refuseWith = status.FAILED_PRECONDITION;
    await harness.operator();
    await harness.job('wanderer');
    await harness.until('wanderer', (job) => (job.status?.attempt ?? 0) >= 1);
    await harness.agent({ name: 'b-willing', slots: 8, script: (run) => run.succeed() });
    const done = await harness.until('wanderer', phase('Succeeded'));
    expect(done.status?.agent).toBe('b-willing');
    expect(done.status?.interruptions).toBeUndefined();
    expect(refusing.stops.length).toBeGreaterThan(0);
  });

  it('says why it waits, and its place', async () => {
    await harness.operator();
    await harness.job('first');
    expect(ready(await harness.until('first', waits('NoAgents', 1)))).toMatchObject({
      status: 'False',
      message: expect.stringContaining('1st of 1 waiting'),
    });
    const { runs, script } = heldRuns();
    await harness.agent({ name: 'one', slots: 1, script });
    await harness.until('first', phase('Running'));
    await harness.job('second');
    await harness.job('third');
    await harness.job('urgent', { priority: 10 });
    const third = await harness.until('third', waits('SlotsBusy', 3));
    expect(ready(third)?.message).toBe('3rd of 3 waiting; 1 of 1 slot on 1 agent is busy.');
    await harness.job('video', {
      capability: 'avatar',
      inputs: [{ name: 'image', key: 'api/a.jpg' }],
      parameters: { script: 'Hello.' },
    });
    await harness.until('video', waits('NoAgentForCapability', 1));

    for (const next of ['urgent', 'second', 'third']) {
      runs.at(-1)?.succeed();
      await harness.until(next, phase('Running'));
    }
    expect(runs.map(({ request }) => request.jobName)).toEqual(['first', 'urgent', 'second', 'third']);
    expect((await harness.get('third')).status?.queuePosition).toBeUndefined();
  });

  it('goes to an agent that has its voice, and waits while none has it', async () => {
    await harness.operator();
    const { runs, script } = heldRuns();
    const speaker = (name: string, voice: string) =>
      harness.agent({
        ...{ name, slots: 2, script },
        capabilities: ['avatar'],
        speech: { voices: [{ id: voice, language: 'en' }], languages: ['en'] },
      });
    await speaker('one', 'slt');
    const avatar = (name: string, voice_id: string) =>
      harness.job(name, {
        capability: 'avatar',
        inputs: [{ name: 'image', key: 'api/a.jpg' }],
        parameters: { script: 'Hello.', voice_id },
      });
    await avatar('other', 'rms');
    const other = await harness.until('other', waits('NoAgentWithVoice', 1));
    expect(ready(other)?.message).toContain('none of 1 agent with avatar has the voice rms.');
    await avatar('own', 'slt');
    expect((await harness.until('own', phase('Running'))).status?.agent).toBe('one');
    await speaker('two', 'rms');
    expect((await harness.until('other', phase('Running'))).status?.agent).toBe('two');
    for (const run of runs) run.succeed();
  });

  it('fails when nobody takes it in time, or when it runs too long', async () => {
    await harness.operator();
    await harness.job('unwanted', { pendingDeadlineSeconds: 1 });
    const unwanted = await harness.until('unwanted', phase('Failed'));
    expect(ready(unwanted)?.reason).toBe('PendingDeadlineExceeded');
    const { script } = heldRuns();
    const agent = await harness.agent({ name: 'one', script });
    const { metadata } = await harness.job('endless', { activeDeadlineSeconds: 1 });
    const endless = await harness.until('endless', phase('Failed'));
    expect(ready(endless)?.reason).toBe('DeadlineExceeded');
    expect(endless.status?.failure?.code).toBe('processing_failed');
    expect(agent.stops).toContainEqual({ uid: metadata.uid, attempt: 1 });
  });

  it('is not confused by others who write to it all the time', async () => {
    const runs: Run[] = [];
    const agent = await harness.agent({ name: 'one', script: (run) => void runs.push(run) });
    await harness.operator();
    await harness.job('contended');
    const ref = { namespace: harness.namespace, name: 'contended' };
    let writing = true;
    const writer = (async () => {
      for (let i = 0; writing; i++) {
        const metadata = { annotations: { 'example.com/touched': String(i) } };
        await harness.client.mergePatch(RENDERJOB_RESOURCE, ref, { metadata });
        await pause(5);
      }
      return true;
    })();
    await harness.until('contended', phase('Running'));
    for (const fraction of [0.2, 0.4, 0.6]) runs[0]?.progress(fraction);
    runs[0]?.succeed();
    await harness.until('contended', phase('Succeeded'));
    await harness.until('contended', (job) => (job.metadata.finalizers ?? []).length === 0);
    writing = false;
    expect(await writer).toBe(true);
    expect((await harness.get('contended')).status?.attempt).toBe(1);
    expect(agent.starts).toHaveLength(1);
  });

  it('is deleted some time after it finished', async () => {
    await harness.agent({ name: 'one', script: (run) => run.succeed() });
    const history = await harness.history();
    await harness.operator();
    const { metadata } = await harness.job('short-lived', { ttlSecondsAfterFinished: 1 });
    await harness.untilGone('short-lived');
    await expect.poll(() => history('short-lived').some(phase('Succeeded')), { timeout: 30_000 }).toBe(true);
    // The output belongs to the job's owner and stays.
    expect(harness.objects.deleted.filter((key) => key.includes(metadata.uid ?? '-'))).toEqual([]);
  });
});
