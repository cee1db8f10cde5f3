import { createKubeClient, type KubeClient } from '@semblance/common/kube/index';
import { silentLogger } from '@semblance/common/logging';
import { LIVESESSION_RESOURCE, type LiveSession } from '@semblance/crds/gen/livesessions';
import { SessionState } from '@semblance/proto/semblance/live/v1/live';
import { testKube } from '@semblance/testkit/servers/shared';
import { Registry } from 'prom-client';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { createSessionController } from './controller.ts';
import { createLiveMetrics } from './live-metrics.ts';
import { createSlotBook } from './slot-book.ts';
import { ALLOCATED_BY, statusWith } from './status.ts';

let kube: Awaited<ReturnType<typeof testKube>>;
let client: KubeClient;
const ending = new AbortController();

beforeEach(async () => {
  kube = await testKube();
  client = createKubeClient({ kubeconfigPath: kube.kubeconfigPath, fieldManager: 'semblance-operator' });
});

afterEach(async () => {
  ending.abort(new Error('the test ends'));
  await client.close();
  await kube.close();
});

it('does not undo with an older view of a session what a later leader has written of it', async () => {
  const place = { agent: 'one', incarnation: 'first' };
  const ref = { name: 'limited', namespace: kube.namespace };
  let copy: LiveSession = await client.create(LIVESESSION_RESOURCE, {
    metadata: { ...ref, annotations: { [ALLOCATED_BY]: 'former' } },
    spec: { capability: 'voice', ...place, maxDurationSeconds: 600 },
  });
  const status = statusWith(copy, Date.now(), {
    phase: 'Ended',
    conditionReason: 'SessionLimitReached',
    message: 'The seconds that were granted are used up.',
    reason: 'session_limit_reached',
  });
  const told = await client.apply(LIVESESSION_RESOURCE, { metadata: ref, status }, { subresource: 'status' });

  // The previous leader still believes that the session streams.
  const ends: string[] = [];
  const book = createSlotBook({ onFreed() {}, onChanged() {} });
  book.bind(place, ref.name, 'voice', true);
  book.report(place, {
    sessionId: ref.name,
    capability: 'voice',
    state: SessionState.SESSION_STATE_STREAMING,
    reason: 0,
    streamedMs: 9_000n,
    received: 9n,
    converted: 9n,
    dropped: 0n,
    goingAway: false,
    fault: '',
    rejected: '',
  });
  const logger = silentLogger();
  const link = {
    ...place,
    address: '127.0.0.1:1',
    connected: true,
    run: async () => {},
    claim: async () => undefined,
    end: async (session: string) => void ends.push(session),
  };
  const controller = createSessionController({
    client,
    book,
    logger,
    registry: new Registry(),
    sessions: {
      get: () => copy,
      note(session) {
        copy = session;
      },
    },
    links: { run: async () => {}, touch() {}, to: () => link },
    fateOf: () => 'connected',
    recorder: { event() {}, run: async () => {} },
    metrics: createLiveMetrics(new Registry()),
  });
  const ended = controller.run(ending.signal);
  controller.touch(ref.name);

  // Once the controller has seen that the session is over, it makes the agent end it.
  await expect.poll(() => ends, { timeout: 20_000 }).toEqual([ref.name]);
  const now = await client.get(LIVESESSION_RESOURCE, ref);
  expect(now.status).toEqual(told.status);
  expect(now.metadata.resourceVersion).toBe(told.metadata.resourceVersion);
  ending.abort(new Error('the test ends'));
  await ended;
});
