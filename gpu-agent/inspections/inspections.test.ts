import { randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { status } from '@grpc/grpc-js';
import { call, createClient } from '@semblance/common/grpc/client';
import { AttemptState } from '@semblance/proto/semblance/agent/v1/agent';
import { InspectionServiceClient, InspectRequest } from '@semblance/proto/semblance/agent/v1/inspection';
import { createHarness, type Harness, type TestAgent, until } from '@semblance/testkit/gpu-agent/harness';
import { BLIND } from '@semblance/testkit/gpu-agent/test-engine';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

let harness: Harness;
let agent: TestAgent;
let client: InspectionServiceClient;

beforeAll(async () => {
  harness = await createHarness();
  agent = await harness.agent({ env: { SEMBLANCE_AGENT_SLOTS: '1' } });
  client = createClient(InspectionServiceClient, agent.address);
});
afterAll(async () => {
  client.close();
  await harness.close();
});

type Change = Partial<InspectRequest>;

function inspect(mode: string, change: Change = {}, signal = new AbortController().signal, to = client) {
  const picture = (name: string) => ({ url: harness.store.url(`/in/${name}`) });
  const request = InspectRequest.fromPartial({
    inspectionId: randomUUID(),
    capability: 'face-swap-image',
    parameters: { mode },
    inputs: { image: picture('image'), face: picture('face') },
    ...change,
  });
  return call(to.inspect.bind(to), request, { timeoutMs: 30_000, signal });
}

const HINT = { code: 'face_small', message: 'The face has 1000 bytes.', input: 'face' };
const picture = (name: string, maxBytes = 0n) => ({ url: harness.store.url(`/in/${name}`), maxBytes });
/** Resolves when an inspection has fetched its inputs. */
const begun = () => until(async () => (await agent.leftovers()).length > 0, 'the inspection has begun');

describe('an inspection', () => {
  it('answers what the engine finds in the pictures, and leaves no file', async () => {
    expect(await inspect('ok')).toEqual({
      findings: { faces: undefined, hints: [HINT], models: [], options: {}, mapped: [] },
      refusal: undefined,
    });
    expect(await agent.leftovers()).toEqual([]);
  });

  it('answers why a render would fail, with what was found before', async () => {
    expect(await inspect('refuse')).toEqual({
      findings: {
        faces: { found: 1, changed: 0, left: [{ reason: 'not_a_person', count: 1 }] },
        hints: [],
        models: [],
        options: {},
        mapped: [],
      },
      refusal: { code: 'face_not_detected', message: 'There is no face in the image.' },
    });
    const tooLarge = { image: picture('image', 1_000n), face: picture('face') };
    expect(await inspect('ok', { inputs: tooLarge })).toMatchObject({ refusal: { code: 'input_too_large' } });
  });

  it.each<[string, () => Change]>([
    ['that the engine fails', () => ({ parameters: { mode: 'throw' } })],
    ['whose engine dies', () => ({ parameters: { mode: 'crash' } })],
    ['whose picture is gone', () => ({ inputs: { image: picture('nowhere'), face: picture('face') } })],
  ])('%s says nothing about the pictures', async (_what, change) => {
    await expect(inspect('ok', change())).rejects.toMatchObject({ code: status.UNAVAILABLE });
    expect(await agent.leftovers()).toEqual([]);
    await until(async () => (await agent.ready()).status === 200, 'an engine is warm');
  });

  it('is checked like a render', async () => {
    const words = join(harness.dir, 'words.txt');
    await writeFile(words, 'buy now\n');
    const env = { SEMBLANCE_CONTENT_CHECK: 'word-list', SEMBLANCE_CONTENT_WORD_LIST: words };
    const strict = await harness.agent({ env });
    const other = createClient(InspectionServiceClient, strict.address);
    const asked = inspect('ok', { parameters: { script: 'Buy now!' } }, undefined, other);
    expect(await asked).toMatchObject({ findings: undefined, refusal: { code: 'content_rejected' } });
    other.close();
    await strict.close();
  });

  it.each<[string, () => Change]>([
    ['no id', () => ({ inspectionId: '' })],
    ['an id that leaves the folder', () => ({ inspectionId: '../x' })],
    ['no capability of a job', () => ({ capability: 'voice' })],
    ['a picture too few', () => ({ inputs: { image: picture('image') } })],
    ['a role that it has not', () => ({ inputs: { image: picture('image'), x: picture('face') } })],
    [
      'a video',
      () => ({ capability: 'face-swap', inputs: { video: picture('image'), face: picture('face') } }),
    ],
    ['a capability without pictures', () => ({ capability: 'lip-sync', inputs: {} })],
    [
      'a link to a file',
      () => ({ inputs: { image: { url: 'file:///etc/passwd', maxBytes: 0n }, face: picture('face') } }),
    ],
  ])('is refused with %s', async (_what, change) => {
    await expect(inspect('ok', change())).rejects.toMatchObject({ code: status.INVALID_ARGUMENT });
  });

  it('of a capability without an engine, or with one that does not look, is not made', async () => {
    const avatar = { capability: 'avatar', inputs: { image: picture('image') } };
    await expect(inspect('ok', avatar)).rejects.toMatchObject({ code: status.UNIMPLEMENTED });
    const blind = await harness.agent({ engines: [BLIND] });
    const other = createClient(InspectionServiceClient, blind.address);
    const asked = inspect('ok', {}, undefined, other);
    await expect(asked).rejects.toMatchObject({ code: status.UNIMPLEMENTED });
    other.close();
    await blind.close();
  });

  it('ends after its time', async () => {
    await expect(inspect('slow')).rejects.toMatchObject({ code: status.DEADLINE_EXCEEDED });
    expect(await agent.leftovers()).toEqual([]);
  });
});

describe('several inspections', () => {
  it('go one after the other; one whose caller leaves makes room for the next', async () => {
    const gone = new AbortController();
    const first = inspect('slow', {}, gone.signal);
    await begun();
    const next = Array.from({ length: 4 }, () => inspect('ok'));
    gone.abort();
    await expect(first).rejects.toMatchObject({ code: status.CANCELLED });
    for (const { findings } of await Promise.all(next)) expect(findings?.hints).toEqual([HINT]);
  });

  it('are refused when too many wait', async () => {
    const gone = new AbortController();
    const first = inspect('slow', {}, gone.signal);
    await begun();
    let refused = 0;
    const rest = Array.from({ length: 20 }, () =>
      inspect('slow', {}, gone.signal).catch(({ code }) => {
        if (code === status.RESOURCE_EXHAUSTED) refused++;
        return code;
      }),
    );
    await until(() => refused === 4, 'four are refused');
    gone.abort();
    await expect(first).rejects.toMatchObject({ code: status.CANCELLED });
    expect(new Set(await Promise.all(rest))).toEqual(new Set([status.CANCELLED, status.RESOURCE_EXHAUSTED]));
    await until(async () => (await agent.leftovers()).length === 0, 'nothing is inspected any more');
    expect((await inspect('ok')).findings?.hints).toEqual([HINT]);
  });
});

describe('renders go before inspections', () => {
  it('a render that needs the slot ends the inspection', async () => {
    const looking = inspect('slow');
    await begun();
    const watch = agent.watch();
    const request = agent.request('ok');
    await agent.start(request);
    await expect(looking).rejects.toMatchObject({ code: status.RESOURCE_EXHAUSTED });
    expect((await watch.ended(request.ref)).state).toBe(AttemptState.ATTEMPT_STATE_SUCCEEDED);
    watch.cancel();
  });

  it('nothing is inspected while renders take all slots', async () => {
    const request = agent.request('slow');
    await agent.start(request);
    await expect(inspect('ok')).rejects.toMatchObject({ code: status.RESOURCE_EXHAUSTED });
    await agent.stop(request.ref);
    expect((await inspect('ok')).findings?.hints).toEqual([HINT]);
  });

  it('nothing is inspected without memory for a whole render beside those that run', async () => {
    const env = { SEMBLANCE_AGENT_SLOTS: '2', SEMBLANCE_AGENT_MEMORY_MIB: '100' };
    const tight = await harness.agent({ env });
    const other = createClient(InspectionServiceClient, tight.address);
    expect((await inspect('ok', {}, undefined, other)).findings?.hints).toEqual([HINT]);
    const request = tight.request('slow');
    await tight.start(request);
    const asked = inspect('ok', {}, undefined, other);
    await expect(asked).rejects.toMatchObject({ code: status.RESOURCE_EXHAUSTED });
    await tight.stop(request.ref);
    other.close();
    await tight.close();
  });
});
