import { eventually } from '@semblance/testkit/stack/eventually';
import { expectError } from '@semblance/testkit/stack/expect-error';
import { ASTRONAUT } from '@semblance/testkit/stack/media';
import { type Account, type Stack, sharedStack } from '@semblance/testkit/stack/stack';
import { beforeAll, describe, expect, test } from 'vitest';

/** Additions to the specification: the voices of Avatar, and their check at the submit. */
let stack: Stack;
let account: Account;
let image_key: string;
let voices: readonly AvatarVoice[];

interface AvatarVoice {
  readonly id: string;
  readonly name: string;
  readonly description: string;
  readonly language: string;
  readonly gender: string | null;
  readonly variants: readonly string[];
}

const SCRIPT = 'Good morning.';
const read = async (query: string) => (await account.api.get(`/voices${query}`)).body as AvatarVoice[];

beforeAll(async () => {
  stack = await sharedStack();
  account = await stack.newAccount({ balanceUsd: 1_000 });
  image_key = await account.api.upload(ASTRONAUT);
  // The control plane hears of an agent's voices within moments of its registration.
  voices = await eventually('voices of Avatar', async () => {
    const listed = await read('?for=avatar');
    return listed.length > 0 ? listed : undefined;
  });
}, 240_000);

const submit = (body: object) => account.api.post('/avatar', { image_key, script: SCRIPT, ...body });
const estimate = (body: object) =>
  account.api.post('/estimate', { capability: 'avatar', image_key, script: SCRIPT, ...body });

describe('GET /voices?for=avatar', () => {
  test('lists the voices of the installation, each once, with language and gender', async () => {
    for (const voice of voices) {
      expect(voice).toEqual({
        id: expect.stringMatching(/\S/),
        name: expect.stringMatching(/\S/),
        description: expect.stringMatching(/\S/),
        language: expect.stringMatching(/^[a-z]{2,8}(-[a-z0-9]+)*$/),
        gender: voice.gender === null ? null : expect.stringMatching(/^(fe)?male$/),
        variants: expect.any(Array),
      });
    }
    const all = voices.flatMap(({ id, variants }) => [id, ...variants]);
    expect(new Set(all).size).toBe(all.length);
  });

  test('GET /voices stays the target voices of Voice Swap, and another word is refused', async () => {
    const plain = await read('');
    expect(await read('?for=voice')).toEqual(plain);
    for (const voice of plain)
      expect(Object.keys(voice).sort()).toEqual(['description', 'id', 'name', 'preview_url']);
    expectError(await account.api.get('/voices?for=lip-sync'), 'invalid_input');
  });
});

describe('an Avatar submit', () => {
  test('takes what the list names', async () => {
    const some = [voices[0], voices.at(-1)].flatMap((voice) => (voice ? [voice] : []));
    for (const { id, language, variants } of some)
      for (const voice_id of [id, ...variants.slice(-1)]) {
        const { status, text } = await estimate({ voice_id, language });
        expect(status, `${voice_id}: ${text}`).toBe(200);
      }
    expect((await estimate({ language: 'en-ZA' })).status).toBe(200);
    expect((await estimate({ voice: { gender: 'male' } })).status).toBe(200);
  });

  test('with a voice or a language that no agent has is refused with the valid ones, without a hold and a job', async () => {
    const before = [await account.api.balance(), (await account.api.get('/usage')).body];
    for (const [body, named] of [
      [{ voice_id: 'calm-alto' }, voices[0]?.id],
      [{ voice_id: ` ${voices[0]?.id}` }, voices[0]?.id],
      [{ language: 'tlh' }, 'en'],
      [{ language: 'English' }, 'en'],
      [{ voice: { gender: 'alto' } }, 'female'],
      [{ voice: { gender: 'male' }, voice_id: voices[0]?.id }, 'voice_id'],
    ] as const)
      for (const answer of [await submit(body), await estimate(body)]) {
        expectError(answer, 'invalid_input');
        expect(answer.text).toContain(named);
      }
    expect([await account.api.balance(), (await account.api.get('/usage')).body]).toEqual(before);
  });
});
