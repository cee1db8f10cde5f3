import { setTimeout as delay } from 'node:timers/promises';
import type { KubeClient, Reflector } from '@semblance/common/kube/index';
import { silentLogger } from '@semblance/common/logging';
import type { LiveSession } from '@semblance/crds/gen/livesessions';
import type { ObjectStore } from '@semblance/objects/store';
import { allocationOf } from '@semblance/testkit/operator/allocate';
import { Registry } from 'prom-client';
import { beforeEach, expect, it } from 'vitest';
import { createAllocator } from './allocator.ts';
import type { LiveLinks } from './live-links.ts';
import { createLiveMetrics } from './live-metrics.ts';
import type { Placer } from './placer.ts';
import { createSlotBook } from './slot-book.ts';

/** Callers give up while a slow API server writes their LiveSession. */

const PLACE = { agent: 'one', incarnation: 'i-1', address: '127.0.0.1:9' };

let writing: PromiseWithResolvers<void>;
let written: PromiseWithResolvers<void>;
/** LiveSessions that exist at the API server. */
let standing: Map<string, LiveSession>;
let doomed: string[];

beforeEach(() => {
  writing = Promise.withResolvers();
  written = Promise.withResolvers();
  standing = new Map();
  doomed = [];
});

function start() {
  const book = createSlotBook({ onFreed() {}, onChanged() {} });
  const client = {
    async createForMetadata(_resource: unknown, object: LiveSession) {
      writing.resolve();
      await written.promise;
      standing.set(object.metadata.name ?? '', object);
      return { metadata: { uid: 'u-1', resourceVersion: '1' } };
    },
    async delete(_resource: unknown, { name }: { name: string }) {
      return standing.delete(name);
    },
  } as unknown as KubeClient;
  const allocator = createAllocator({
    client,
    namespace: 'n',
    identity: 'operator-1',
    book,
    logger: silentLogger(),
    // This copy lags behind: deleted sessions are still in it.
    sessions: noted(),
    placer: {
      async acquire({ session, capability }: { session: string; capability: string }) {
        book.claim(PLACE, session, capability);
        return PLACE;
      },
      pause() {},
    } as unknown as Placer,
    links: { to: () => ({ ...PLACE, claim: async () => undefined }) } as unknown as LiveLinks,
    objects: {} as ObjectStore,
    fateOf: () => 'connected',
    onDoomed: (session) => void doomed.push(session),
    metrics: createLiveMetrics(new Registry()),
  });
  const term = new AbortController().signal;
  const ask = (name: string, signal: AbortSignal = term) =>
    allocator.allocate(allocationOf(name), { signal }, term);
  return { ask, book };
}

function noted() {
  const known = new Map<string, LiveSession>();
  return {
    get: (name: string) => known.get(name),
    note: (session: LiveSession) => void known.set(session.metadata.name ?? '', session),
  } as unknown as Reflector<LiveSession>;
}

/** Asks for a session and gives up while the LiveSession is written. */
async function givenUp(ask: ReturnType<typeof start>['ask'], name: string) {
  const caller = new AbortController();
  const answer = ask(name, caller.signal).then(
    () => 'allocated',
    () => 'given up',
  );
  await writing.promise;
  caller.abort(new Error('the caller cancelled'));
  return answer;
}

it('is ended as soon as it is written: its LiveSession goes, and its agent is told', async () => {
  const { ask, book } = start();
  const answer = givenUp(ask, 'nobodys');
  await writing.promise;
  await delay(20);
  // The delete of the caller that gave up found nothing.
  expect([...standing.keys()]).toEqual([]);
  written.resolve();
  expect(await answer).toBe('given up');
  expect([...standing.keys()]).toEqual([]);
  expect(doomed).toEqual(['nobodys']);
  expect(book.at(PLACE, 'nobodys')).toMatchObject({ doomed: true, claimed: false });
  // A late caller does not get a session that is being ended.
  await expect(ask('nobodys')).rejects.toThrow('has ended');
});

it('stays when it is asked for again meanwhile, as by one whose connection broke', async () => {
  const { ask } = start();
  const first = givenUp(ask, 'again');
  await writing.promise;
  await delay(20);
  const second = ask('again');
  written.resolve();
  expect(await second).toEqual(PLACE);
  expect(await first).toBe('allocated');
  expect([...standing.keys()]).toEqual(['again']);
  expect(doomed).toEqual([]);
});

it('stays when it is asked for again in a moment after it was written', async () => {
  const { ask } = start();
  const first = givenUp(ask, 'late');
  await writing.promise;
  await delay(20);
  written.resolve();
  await delay(150);
  expect(await ask('late')).toEqual(PLACE);
  await first;
  expect([...standing.keys()]).toEqual(['late']);
});

it('is ended when whoever asked again gave up, too', async () => {
  const { ask } = start();
  const first = givenUp(ask, 'twice');
  await writing.promise;
  await delay(20);
  const again = new AbortController();
  const second = ask('twice', again.signal).catch(() => 'given up');
  again.abort(new Error('the caller cancelled'));
  written.resolve();
  expect(await first).toBe('given up');
  await second;
  expect([...standing.keys()]).toEqual([]);
});
