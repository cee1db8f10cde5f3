import { AttemptState } from '@semblance/proto/semblance/agent/v1/agent';
import { createHarness, type Harness, type TestAgent } from '@semblance/testkit/gpu-agent/harness';
import { SEVERAL_FACES } from '@semblance/testkit/gpu-agent/test-engine';
import { afterAll, beforeAll, expect, it } from 'vitest';

let harness: Harness;
beforeAll(async () => {
  harness = await createHarness();
});
afterAll(() => harness.close());

/** Renders with two more pictures of the face, and returns the roles that the engine saw and the findings. */
async function run(agent: TestAgent) {
  const watch = agent.watch();
  const { inputs } = agent.request('roles');
  const face = inputs.face as NonNullable<typeof inputs.face>;
  const request = agent.request('roles', { inputs: { ...inputs, face_2: face, face_3: face } });
  await agent.start(request);
  const ended = await watch.ended(request.ref);
  watch.cancel();
  expect(ended.state).toBe(AttemptState.ATTEMPT_STATE_SUCCEEDED);
  const hints = ended.output?.findings?.hints ?? [];
  return { roles: hints.find(({ code }) => code === 'face_small')?.message, hints };
}

it('an engine that takes several pictures of a face gets all of them', async () => {
  const agent = await harness.agent({ engines: [SEVERAL_FACES] });
  const { roles, hints } = await run(agent);
  expect(roles).toBe('face face_2 face_3 image');
  expect(hints).toHaveLength(1);
  await agent.close();
});

it('another gets the first, and the job tells so', async () => {
  const agent = await harness.agent();
  const { roles, hints } = await run(agent);
  expect(roles).toBe('face image');
  expect(hints[0]).toEqual({
    code: 'picture_chosen',
    message: 'Of the 3 pictures of face_keys, the first is used: this engine takes one.',
    input: 'face',
  });
  await agent.close();
});
