import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadVoices } from '@semblance/common/voices/load-voices';
import { readVoice, type Voice, voiceDefinition } from '@semblance/common/voices/voice';
import type { GpuAgent } from '@semblance/crds/gen/gpuagents';
import { openObjectStore } from '@semblance/objects/open';
import type { ObjectStore } from '@semblance/objects/store';
import { type TestDatabase, testDatabase } from '@semblance/testkit/control-plane/storage';
import { pino } from 'pino';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { createOrphans } from '../media/orphans.ts';
import { createRemovals } from '../media/removals.ts';
import { createSignedLinks } from '../media/signed-links.ts';
import { listOffered, listVoices } from './list-voices.ts';
import { type AskForPreview, createPreviewChore } from './previews.ts';

const NEVER = new AbortController().signal;
const logger = pino({ level: 'silent' });
const shipped = await loadVoices();
const some = new Map([...shipped].slice(0, 2));
const WAV = Buffer.concat([Buffer.from('RIFF\0\0\0\0WAVE'), Buffer.alloc(100)]);

let db: TestDatabase;
let folder: string;
let objects: ReturnType<typeof openObjectStore>;
/** Requests to agents, as `<address> <voice>`. */
let asked: string[];
let agents: GpuAgent[];

beforeAll(async () => {
  db = await testDatabase();
  folder = await mkdtemp(join(tmpdir(), 'semblance-previews-'));
  const publicUrl = 'http://127.0.0.1:1';
  objects = openObjectStore({ url: `file://${folder}`, signingKey: Buffer.alloc(32), publicUrl });
});
afterAll(async () => {
  await objects.close();
  await rm(folder, { recursive: true });
  await db.close();
});
beforeEach(async () => {
  asked = [];
  agents = [agent('a')];
  await db.sql`delete from voices`;
  await db.sql`delete from voice_previews`;
});

function agent(address: string, more: object = {}, ready = 'True'): GpuAgent {
  const live = [{ name: 'voice', slots: 4 }];
  const condition = { type: 'Ready', status: ready, reason: 'Test', message: '', lastTransitionTime: '' };
  return {
    metadata: { name: address },
    spec: {},
    status: { address, live, conditions: [condition], ...more },
  } as unknown as GpuAgent;
}

function chore(
  answer: AskForPreview = async () => WAV,
  voices: ReadonlyMap<string, Voice> = some,
  retryMs = 60_000,
) {
  return createPreviewChore({
    database: db.database,
    objects,
    voices,
    logger,
    agents: { list: () => agents, hasSynced: true },
    pace: { retryMs },
    ask: async (address, definition, ...rest) => {
      asked.push(`${address} ${readVoice(JSON.parse(definition), '').id}`);
      return answer(address, definition, ...rest);
    },
  });
}

const stored = async () => {
  const keys: string[] = [];
  for await (const { key } of objects.list('voices/')) keys.push(key);
  return keys.sort();
};
const listed = async (voices: ReadonlyMap<string, Voice> = some) =>
  (await listVoices({ files: voices, sql: db.sql }, createSignedLinks({ objects }), 86_400)).map(
    ({ id }) => id,
  );
const view = async (id: string) => (await listOffered({ files: some, sql: db.sql }, id))[0];

test('each voice is sampled once, and listed from then on', async () => {
  expect(await listed()).toEqual([]);
  const { work } = chore();
  expect(await work(NEVER)).toEqual({ made: 2, left: 0 });
  expect(asked.sort()).toEqual(['a bass-narrator', 'a bright-tenor']);
  expect(await listed()).toEqual(['bass-narrator', 'bright-tenor']);
  expect(await view('bass-narrator')).toMatchObject({ source: 'file', previewMadeAt: expect.any(String) });
  const keys = await stored();
  expect(keys).toHaveLength(2);
  for (const key of keys) {
    expect(key).toMatch(/^voices\/[0-9a-f]{64}-[0-9a-f]{8}\.wav$/);
    expect(await objects.info(key)).toEqual({ sizeBytes: WAV.length, contentType: 'audio/wav' });
  }
  expect(await work(NEVER)).toEqual({ made: 0, left: 0 });
  expect(asked).toHaveLength(2);
});

test('voices that sound alike share one; a voice that sounds otherwise gets its own', async () => {
  const { work } = chore();
  await work(NEVER);
  const add = async (change: object) => {
    const base = voiceDefinition(some.get('bright-tenor') as Voice);
    const definition = { ...base, id: 'another', ...change };
    await db.sql`
      insert into voices (id, definition) values ('another', ${db.sql.json(definition)}::jsonb)
      on conflict (id) do update set definition = excluded.definition`;
  };
  await add({ name: 'Another' });
  expect(await work(NEVER)).toEqual({ made: 0, left: 0 });
  expect(await listed()).toEqual(['another', 'bass-narrator', 'bright-tenor']);
  await add({ formant_shift: 1.2 });
  expect(await listed()).toEqual(['bass-narrator', 'bright-tenor']);
  expect(await work(NEVER)).toEqual({ made: 1, left: 0 });
  expect(asked.at(-1)).toBe('a another');
  expect(await listed()).toEqual(['another', 'bass-narrator', 'bright-tenor']);
});

test('only agents that are ready to carry voices are asked', async () => {
  const { work } = chore();
  agents = [
    agent('not-ready', {}, 'False'),
    agent('draining', { draining: true }),
    agent('no-slots', { live: [{ name: 'voice', slots: 0, warming: true }] }),
    agent('pictures', { live: [{ name: 'full-live-swap', slots: 2 }] }),
    agent('renders', { live: undefined }),
    agent('nowhere', { address: undefined }),
    { metadata: { name: 'new' }, spec: {} } as unknown as GpuAgent,
  ];
  expect(await work(NEVER)).toEqual({ made: 0 });
  expect(asked).toEqual([]);
  // Nothing was tried, so nothing is put off.
  agents.push(agent('ready'));
  expect(await work(NEVER)).toEqual({ made: 2, left: 0 });
});

test('another agent is asked when one fails; when all do, that voice waits and the others do not', async () => {
  agents = ['a', 'b', 'c', 'd', 'e'].map((name) => agent(name));
  const broken = new Error('out of order\0');
  const { work } = chore(async (_address, definition) => {
    if (definition.includes('bass-narrator')) throw broken;
    return asked.filter((each) => each.includes('bright-tenor')).length > 1 ? WAV : Buffer.from('<html>');
  });
  expect(await work(NEVER)).toEqual({ made: 1, left: 1 });
  expect(asked.filter((each) => each.includes('bass-narrator'))).toHaveLength(3);
  expect(new Set(asked).size).toBe(5);
  expect(await listed()).toEqual(['bright-tenor']);
  expect(await view('bass-narrator')).toMatchObject({
    previewMadeAt: undefined,
    previewError: 'out of order',
  });
  expect(await work(NEVER)).toEqual({ made: 0, left: 0 });
});

test('a failure is tried again later and later, and forgotten when it succeeds', async () => {
  let works = false;
  const answer = async () => {
    if (!works) throw new Error('not yet');
    return WAV;
  };
  const { work } = chore(answer, new Map([...some].slice(0, 1)));
  const delays: number[] = [];
  for (let i = 0; i < 9; i++) {
    await db.sql`update voice_previews set due_at = now()`;
    await work(NEVER);
    const [row] = await db.sql<{ seconds: string }[]>`
      select extract(epoch from due_at - now())::text as seconds from voice_previews`;
    delays.push(Math.round(Number(row?.seconds) / 60));
  }
  expect(delays).toEqual([1, 2, 4, 8, 16, 32, 60, 60, 60]);
  works = true;
  await db.sql`update voice_previews set due_at = now()`;
  expect(await work(NEVER)).toEqual({ made: 1, left: 0 });
  expect((await view('bass-narrator'))?.previewError).toBeUndefined();
});

test('what was put off before the clock was set back is tried now, what is put off by its failures waits', async () => {
  const { work } = chore(
    async () => {
      throw new Error('not yet');
    },
    new Map([...some].slice(0, 1)),
  );
  const ahead = (seconds: number) =>
    db.sql`update voice_previews set due_at = due_at + ${seconds} * interval '1 second'`;
  await work(NEVER);
  expect(asked).toHaveLength(1);
  await work(NEVER);
  expect(asked).toHaveLength(1);
  await ahead(3_600);
  await work(NEVER);
  expect(asked).toHaveLength(2);
  // The clock is back by less than a pause, so it waits at most twice as long.
  await ahead(60);
  await work(NEVER);
  expect(asked).toHaveLength(2);
});

test('a round that is ended ends, and leaves nothing that is listed', async () => {
  const stop = new AbortController();
  const { work } = chore(async (_address, _definition, signal) => {
    stop.abort(new Error('the process ends'));
    signal.throwIfAborted();
    return WAV;
  });
  await expect(work(stop.signal)).rejects.toThrow('the process ends');
  expect(asked).toHaveLength(1);
  expect(await listed()).toEqual([]);
  expect(await chore().work(NEVER)).toEqual({ made: 2, left: 0 });
});

test('what is offered no more is forgotten after an hour, and its file goes with the orphans', async () => {
  await chore().work(NEVER);
  const before = await stored();
  const { work } = chore(undefined, new Map([...some].slice(0, 1)));
  const old = async (minutes: number) =>
    db.sql`update voice_previews set wanted_at = now() - ${minutes} * interval '1 minute'`;
  await old(59);
  await work(NEVER);
  expect(await db.sql`select 1 from voice_previews`).toHaveLength(2);
  await old(61);
  await work(NEVER);
  expect(await db.sql`select 1 from voice_previews`).toHaveLength(1);
  expect(await listed(new Map([...some].slice(0, 1)))).toEqual(['bass-narrator']);
  const aged: Pick<ObjectStore, 'list' | 'put'> = {
    put: (...stored) => objects.put(...stored),
    async *list(prefix: string) {
      const storedAt = new Date(Date.now() - 2 * 86_400_000);
      for await (const object of objects.list(prefix)) yield { ...object, storedAt };
    },
  };
  const removals = createRemovals({ database: db.database, objects, logger });
  const orphans = createOrphans({
    sql: db.sql,
    objects: aged,
    removals,
    logger,
    renderJobs: () => new Set(),
  });
  await orphans.sweep(NEVER);
  const [kept, ...more] = await stored();
  expect(more).toEqual([]);
  expect(before).toContain(kept);
  const [row] = await db.sql<{ object_key: string }[]>`select object_key from voice_previews`;
  expect(row?.object_key).toBe(kept);
});
