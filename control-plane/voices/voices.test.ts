import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadVoices } from '@semblance/common/voices/load-voices';
import {
  parseVoice,
  type Voice,
  type VoiceDefinition,
  voiceDefinition,
} from '@semblance/common/voices/voice';
import {
  callerOf,
  makeAccount,
  startTestSystem,
  type TestSystem,
} from '@semblance/testkit/control-plane/control-plane';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { runAdmin } from '../admin/run.ts';
import { soundOf } from './catalogue.ts';
import { findVoice } from './find-voice.ts';

const OWN: VoiceDefinition = {
  id: 'own-voice',
  name: 'Own',
  description: 'The voice of a test.',
  pitch_hz: { low: 100, high: 150 },
  formant_shift: 1.1,
  timbre: [{ hz: 200, db: 2 }],
  model: 'my-rvc',
};

let system: TestSystem;
let folder: string;
let files: ReadonlyMap<string, Voice>;

beforeAll(async () => {
  system = await startTestSystem();
  folder = await mkdtemp(join(tmpdir(), 'semblance-voice-'));
  files = await loadVoices();
});
afterAll(async () => {
  await rm(folder, { recursive: true });
  await system.close();
});
afterEach(async () => {
  await system.database.sql`delete from voices`;
  await system.database.sql`delete from voice_previews`;
});

async function admin(...args: string[]) {
  let stdout = '';
  const env = {
    SEMBLANCE_CONTROL_ADDRESS: `127.0.0.1:${system.plane.port}`,
    SEMBLANCE_ADMIN_TOKEN: system.adminToken,
  };
  const into = { write: (text: string) => (stdout += text) };
  const code = await runAdmin([...args, '--json'], { env, stdout: into, stderr: into });
  return { code, answer: JSON.parse(stdout) };
}

async function fileOf(definition: unknown): Promise<string> {
  const path = join(folder, 'voice.json');
  await writeFile(path, typeof definition === 'string' ? definition : JSON.stringify(definition));
  return path;
}
const add = async (definition: unknown) => admin('voice', 'add', '--file', await fileOf(definition));
const ids = async () =>
  (await admin('voice', 'list')).answer.map((voice: { voice_id: string }) => voice.voice_id);
const find = (id: string) => findVoice({ files, sql: system.database.sql }, id);

describe('voices of the service', () => {
  test('are those of files until one is added, found at once and removed again', async () => {
    expect(await ids()).toEqual([...files.keys()]);
    const shown = {
      voice_id: 'own-voice',
      name: 'Own',
      description: 'The voice of a test.',
      source: 'added',
      model: 'my-rvc',
      preview_made_at: null,
      preview_error: null,
    };
    expect(await add(OWN)).toEqual({ code: 0, answer: shown });
    expect(await ids()).toEqual([...files.keys(), 'own-voice'].sort());
    expect(await find('own-voice')).toEqual(OWN);
    expect(await admin('voice', 'remove', '--voice', 'own-voice')).toEqual({
      code: 0,
      answer: { voice_id: 'own-voice', removed: true },
    });
    expect(await find('own-voice')).toBeUndefined();
    expect(await ids()).toEqual([...files.keys()]);
  });

  test('take the place of a file with the same id for as long as they are there', async () => {
    const shipped = files.get('calm-alto') as Voice;
    expect(await find('calm-alto')).toEqual(voiceDefinition(shipped));
    await add({ ...OWN, id: 'calm-alto' });
    expect(await find('calm-alto')).toEqual({ ...OWN, id: 'calm-alto' });
    await add({ ...OWN, id: 'calm-alto', name: 'Another' });
    expect(await find('calm-alto')).toMatchObject({ name: 'Another' });
    const listed = (await admin('voice', 'list')).answer;
    expect(listed).toHaveLength(files.size);
    expect(listed.find((voice: { voice_id: string }) => voice.voice_id === 'calm-alto')).toMatchObject({
      name: 'Another',
      source: 'added',
    });
    await admin('voice', 'remove', '--voice', 'calm-alto');
    expect(await find('calm-alto')).toEqual(voiceDefinition(shipped));
  });

  test('are found as an agent reads them, and nothing else is found', async () => {
    await add(OWN);
    for (const id of [...files.keys(), 'own-voice'])
      expect(parseVoice(JSON.stringify(await find(id)), id).id).toBe(id);
    for (const id of ['', 'none', 'Own-Voice', 'own-voice ', "' or true --", 'x\0', '\ud800', '__proto__'])
      expect(await find(id), id).toBeUndefined();
  });

  test('are refused with every fault by name', async () => {
    expect(
      await add({ ...OWN, formant_shift: 9, pitch_hz: { low: 200, high: 150 }, colour: 'red' }),
    ).toMatchObject({
      code: 1,
      answer: {
        error: { code: 'invalid_input', message: expect.stringMatching(/formant_shift: .*; .*colour/) },
      },
    });
    const { answer } = await add('{ "id": ');
    expect(answer.error).toMatchObject({
      code: 'invalid_input',
      message: expect.stringContaining('not JSON'),
    });
    for (const name of ['\u001b[2J', 'a\nb', 'x\0'])
      expect((await add({ ...OWN, name })).answer.error.code, name).toBe('invalid_input');
    expect((await add({ ...OWN, description: 'x'.repeat(70_000) })).answer.error).toMatchObject({
      code: 'usage',
      message: expect.stringContaining('larger than 64 KiB'),
    });
    expect((await admin('voice', 'add', '--file', join(folder, 'none'))).answer.error.code).toBe('usage');
    const removal = (id: string) => admin('voice', 'remove', '--voice', id);
    expect((await removal('none')).answer.error.code).toBe('not_found');
    expect((await removal('calm-alto')).answer.error).toMatchObject({
      code: 'invalid_input',
      message: expect.stringContaining('that of a file'),
    });
    expect(await ids()).toEqual([...files.keys()]);
  });

  test('are at most so many, however many come at once', async () => {
    const { sql } = system.database;
    await sql`
      insert into voices (id, definition)
      select 'v-' || n, jsonb_set(${sql.json(OWN)}::jsonb, '{id}', to_jsonb('v-' || n)) from generate_series(1, 498) n`;
    const { admin: client, asAdmin } = system.client;
    const outcomes = await Promise.allSettled(
      [1, 2, 3, 4].map((n) =>
        asAdmin(client.addVoice.bind(client), { definitionJson: JSON.stringify({ ...OWN, id: `w-${n}` }) }),
      ),
    );
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(2);
    for (const outcome of outcomes)
      if (outcome.status === 'rejected') expect(outcome.reason).toMatchObject({ code: 'invalid_input' });
    // An existing one is replaced nevertheless.
    expect((await add({ ...OWN, id: 'v-1', name: 'Again' })).answer).toMatchObject({ name: 'Again' });
  });
});

describe('what callers are shown', () => {
  const list = async (caller: { keySha256: Buffer }) => {
    const { control, ask } = system.client;
    return (await ask(control.listVoices.bind(control), { caller })).voices;
  };
  const made = async (voice: Voice, key: string) => {
    const { sql } = system.database;
    await sql`insert into voice_previews (sound, object_key, made_at) values (${soundOf(voice)}, ${key}, now())`;
  };

  test('is nothing without a key, and counts against its limit', async () => {
    await expect(list(callerOf('sk_live_none'))).rejects.toMatchObject({ code: 'unauthorized' });
    const { caller } = await makeAccount(system, 1, 2);
    await list(caller);
    await list(caller);
    await expect(list(caller)).rejects.toMatchObject({ code: 'rate_limited' });
  });

  test('are the voices that have a preview, with the same signed link each time', async () => {
    const { caller } = await makeAccount(system);
    expect(await list(caller)).toEqual([]);
    await add(OWN);
    await made(parseVoice(JSON.stringify(OWN), ''), 'voices/own.wav');
    await made(files.get('calm-alto') as Voice, 'voices/alto.wav');
    const { sql } = system.database;
    await sql`insert into voice_previews (sound, last_error) values (${soundOf(files.get('bright-tenor') as Voice)}, 'no')`;
    const first = await list(caller);
    expect(first.map(({ id, name, description }) => ({ id, name, description }))).toEqual([
      { id: 'calm-alto', name: 'Calm alto', description: files.get('calm-alto')?.description },
      { id: 'own-voice', name: 'Own', description: 'The voice of a test.' },
    ]);
    for (const { previewUrl } of first) {
      const url = new URL(previewUrl);
      expect(url.pathname).toMatch(/^\/files\/voices\/(alto|own)\.wav$/);
      expect(Number(url.searchParams.get('expires')) - Date.now() / 1000).toBeGreaterThan(43_000);
    }
    expect(await list(caller)).toEqual(first);
    // Another name is the same sound; another pitch is a new one, whose preview is not made yet.
    await add({ ...OWN, name: 'Renamed', description: 'Told otherwise.' });
    expect((await list(caller)).map(({ name }) => name)).toEqual(['Calm alto', 'Renamed']);
    await add({ ...OWN, pitch_hz: { low: 110, high: 150 } });
    expect((await list(caller)).map(({ id }) => id)).toEqual(['calm-alto']);
  });
});

test('all that decides on the sound is another sound, and nothing else', () => {
  const voice = parseVoice(JSON.stringify(OWN), '');
  const sound = soundOf(voice);
  expect(soundOf({ ...voice, id: 'x', name: 'y', description: 'z' })).toBe(sound);
  const others = [
    { ...voice, pitchHz: { low: 101, high: 150 } },
    { ...voice, pitchHz: { low: 100, high: 151 } },
    { ...voice, formantShift: 1 },
    { ...voice, timbre: [] },
    { ...voice, timbre: [{ hz: 200, db: 3 }] },
    { ...voice, model: 'another' },
    { ...voice, model: undefined },
  ];
  expect(new Set([sound, ...others.map(soundOf)]).size).toBe(8);
});
