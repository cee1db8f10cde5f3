import { type Api, apiOf } from '@semblance/testkit/stack/api';
import { eventually } from '@semblance/testkit/stack/eventually';
import { expectError } from '@semblance/testkit/stack/expect-error';
import { type Followed, follow } from '@semblance/testkit/stack/follow';
import type { Kubectl } from '@semblance/testkit/stack/kubectl';
import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/stack/media';
import { type Account, type Stack, stackAt } from '@semblance/testkit/stack/stack';
import { type StackProcess, startStackProcess, WITHOUT_LIVE } from '@semblance/testkit/stack/stack-process';
import { afterAll, beforeAll, expect, test } from 'vitest';

/**
 * Followers of jobs that wait as long as a test needs. The only agent is drained, so the tests have their own
 * stack.
 */
let running: StackProcess;
let stack: Stack;
let kubectl: Kubectl;
let account: Account;

beforeAll(async () => {
  running = await startStackProcess({ env: WITHOUT_LIVE });
  stack = stackAt(running.file);
  kubectl = stack.kubectl;
  const agent = (await kubectl(['get', 'gpuagents', '-o', 'jsonpath={.items[0].metadata.name}'])).trim();
  await kubectl.patch('gpuagent', agent, { spec: { drain: true } });
  account = await stack.newAccount();
}, 240_000);

afterAll(() => running?.close(), 200_000);

async function submit({ upload, swap }: Api): Promise<string> {
  const [image_key, face_key] = await Promise.all([upload(ASTRONAUT), upload(ADMIRAL)]);
  return (await swap({ image_key, face_key })).id;
}

/** Returns a function that tells whether the service has ended the stream; an end by the client does not count. */
function overOf({ ended }: Followed): () => boolean {
  let over = false;
  ended.then(
    () => {
      over = true;
    },
    () => {},
  );
  return () => over;
}

test('a stream ends when its key is revoked, those of other keys go on, and coming back is answered 401', async () => {
  const { api, accountId, keyId } = await stack.newAccount();
  const second = await stack.admin('key', 'create', { account: accountId });
  const other = apiOf({ baseUrl: api.baseUrl, apiKey: String(second.api_key) });
  const path = `/jobs/${await submit(api)}/events`;
  const [revoked, kept] = [await follow(api, path), await follow(other, path)];
  await eventually('both to be told the status', () => revoked.events[0] && kept.events[0]);
  const [revokedIsOver, keptIsOver] = [overOf(revoked), overOf(kept)];
  await stack.admin('key', 'revoke', { key: keyId });
  await eventually('the end of the stream', () => revokedIsOver() || undefined, { withinMs: 10_000 });
  const last = { 'last-event-id': revoked.events.at(-1)?.id ?? '' };
  expectError(await api.get(path, last), 'unauthorized');
  expect(keptIsOver()).toBe(false);
  kept.leave();
});

test('a Last-Event-ID that this job never sent is none: the present state is told, and the stream stays', async () => {
  const id = await submit(account.api);
  const ended = await submit(account.api);
  await account.api.post(`/jobs/${ended}/cancel`, {});
  await account.api.finished(ended);
  const first = await follow(account.api, `/jobs/${id}/events`);
  const own = (await eventually('the status', () => first.events[0])).id;
  first.leave();
  const of = await follow(account.api, `/jobs/${ended}/events`);
  await of.ended;
  const foreign = of.events.at(-1)?.id ?? '';
  expect(foreign).toMatch(/^3\./);
  for (const forged of ['3.0.0.', '3.1.100.', '2.9.100.', own.replace(/^1/, '3'), foreign]) {
    const stream = await follow(account.api, `/jobs/${id}/events`, { 'last-event-id': forged });
    expect(stream.status, forged).toBe(200);
    const told = await eventually('the present state', () => stream.events[0]);
    expect(told, forged).toMatchObject({ id: own, event: 'status', data: { id, status: 'queued' } });
    stream.leave();
  }
  const { status } = await follow(account.api, `/jobs/${ended}/events`, { 'last-event-id': own });
  expect(status, 'not the end of another').toBe(200);
});

test('`position` and `of` are the place that the RenderJob tells, among all that want the same agents', async () => {
  const { api } = await stack.newAccount();
  const ids = [await submit(api), await submit(api), await submit(api)];
  for (const id of ids) {
    const { events, leave } = await follow(api, `/jobs/${id}/events`);
    await eventually(`the same place by both, of ${id}`, async () => {
      const { queuePosition, queueLength, conditions = [] } = (await kubectl.renderJob(id))?.status ?? {};
      const place = events.findLast(({ event }) => event === 'queue')?.data;
      const message = conditions.find(({ type }) => type === 'Ready')?.message ?? '';
      const [, nth, total] = /^(\d+)\w\w of (\d+) waiting;/.exec(message) ?? [];
      const told = JSON.stringify([place?.position, place?.of]);
      if (!place || told !== JSON.stringify([queuePosition, queueLength]))
        throw new Error(`${told} is not ${queuePosition} of ${queueLength}`);
      expect([Number(nth), Number(total)]).toEqual([queuePosition, queueLength]);
      expect(place.reason).toBe('no_agent');
      return true;
    });
    leave();
  }
});
