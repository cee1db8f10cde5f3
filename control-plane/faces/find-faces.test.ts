import { status } from '@grpc/grpc-js';
import { GrpcError } from '@semblance/common/grpc/server';
import type { GpuAgent } from '@semblance/crds/gen/gpuagents';
import type { FindPeopleResponse, FoundPerson } from '@semblance/proto/semblance/agent/v1/inspection';
import {
  makeAccount,
  startTestSystem,
  type TestSystem,
  upload,
} from '@semblance/testkit/control-plane/control-plane';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { removeUpload } from '../media/media.ts';
import { createRemovals } from '../media/removals.ts';
import { faceIdOf } from './face-rows.ts';
import { type AskForPeople, createFindFaces } from './find-faces.ts';

const NEVER = new AbortController().signal;
const PERSON: FoundPerson = {
  ...{ x: 0.1, y: 0.2, width: 0.3, height: 0.4, atUs: 0n, frames: 1, notSource: [], notTarget: [] },
  look: Buffer.alloc(1_024, 7).toString('base64'),
  crop: Buffer.from('a crop'),
};
const answer = (...people: FoundPerson[]): FindPeopleResponse => ({ people, frames: 1, refusal: undefined });

let system: TestSystem;
beforeAll(async () => {
  system = await startTestSystem({ housekeepingMs: 3_600_000 });
});
afterAll(() => system.close());

function finder(ask: AskForPeople, limitMs?: number) {
  const engines = [{ name: 'e', version: '1', capabilities: [{ name: 'face-swap-image', slots: 1 }] }];
  const condition = { type: 'Ready', status: 'True', reason: 'Test', message: '', lastTransitionTime: '' };
  const agent = {
    metadata: { name: 'a' },
    spec: {},
    status: { address: 'a', engines, slots: 2, slotsUsed: 0, conditions: [condition] },
  } as unknown as GpuAgent;
  const { database, objects, logger } = system;
  const removals = createRemovals({ database, objects, logger });
  return createFindFaces({
    database,
    objects,
    removals,
    logger,
    ask,
    limitMs,
    roomWaitMs: 0,
    agents: { list: () => [agent] },
  });
}

async function picture() {
  const account = await makeAccount(system);
  return { account, key: (await upload(system, account.caller)).fileKey };
}
const kept = async (key: string) =>
  (await system.database.sql`select face_id from faces where file_key = ${key}`).map(({ face_id: id }) => id);
const isStored = (key: string) =>
  system.objects.info(`faces/${faceIdOf(key, 0)}.jpg`).then(
    () => true,
    () => false,
  );

describe('a search for faces', () => {
  it('asks once, and keeps what was found with the file', async () => {
    const { account, key } = await picture();
    let asked = 0;
    const find = finder(async () => {
      asked++;
      return answer(PERSON);
    });
    const all = await Promise.all([1, 2, 3].map(() => find(account.accountId, key, NEVER)));
    expect([asked, await kept(key), await isStored(key)]).toEqual([1, [faceIdOf(key, 0)], true]);
    expect(new Set(all.map(({ faces }) => faces[0]?.face_id)).size).toBe(1);
  });

  it('keeps nothing of a file that is deleted meanwhile', async () => {
    const { account, key } = await picture();
    const find = finder(async () => {
      const { accountId } = account;
      await system.database.sql.begin((tx) =>
        removeUpload(tx, { fileKey: key, accountId }, { by: 'owner', actor: 'test' }),
      );
      return answer(PERSON);
    });
    await expect(find(account.accountId, key, NEVER)).rejects.toMatchObject({ code: 'invalid_input' });
    expect([await kept(key), await isStored(key)]).toEqual([[], false]);
  });

  it('keeps nothing of an answer that cannot be believed', async () => {
    const { account, key } = await picture();
    for (const person of [
      { ...PERSON, look: 'AAAA' },
      { ...PERSON, crop: Buffer.alloc(1 << 20) },
    ]) {
      await expect(finder(async () => answer(person))(account.accountId, key, NEVER)).rejects.toThrow(
        'cannot be kept',
      );
      expect(await kept(key)).toEqual([]);
    }
  });

  it.each([
    ['at_capacity', status.RESOURCE_EXHAUSTED],
    ['at_capacity', status.UNAVAILABLE],
    ['capability_unavailable', status.UNIMPLEMENTED],
  ])('that no agent makes is %s', async (code, refusal) => {
    const { account, key } = await picture();
    const find = finder(async () => Promise.reject(new GrpcError(refusal, 'as asked')));
    await expect(find(account.accountId, key, NEVER)).rejects.toMatchObject({ code });
  });

  it('that takes too long is given up, and too many of an account are refused', async () => {
    const { account, key } = await picture();
    const find = finder(() => new Promise(() => {}), 300);
    const all = await Promise.allSettled(
      Array.from({ length: 12 }, () => find(account.accountId, key, NEVER)),
    );
    const reasons = all.map((one) => (one.status === 'rejected' ? one.reason : undefined));
    for (const reason of reasons) expect(reason).toMatchObject({ code: 'at_capacity' });
    expect(reasons.filter(({ message }) => message.includes('too many'))).toHaveLength(3);
  });
});
