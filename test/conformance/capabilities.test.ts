import { apiOf } from '@semblance/testkit/stack/api';
import { expectError } from '@semblance/testkit/stack/expect-error';
import { ASTRONAUT, MP4, wav } from '@semblance/testkit/stack/media';
import { type Account, type Stack, sharedStack } from '@semblance/testkit/stack/stack';
import { beforeAll, describe, expect, test } from 'vitest';

let stack: Stack;
let account: Account;
let files: { image: string; video: string; audio: string };
/** Capabilities that are enabled in this stack; other suites test their renders. */
let enabled: Set<string>;

beforeAll(async () => {
  stack = await sharedStack();
  account = await stack.newAccount();
  const [image, video, audio] = await Promise.all([
    account.api.upload(ASTRONAUT),
    account.api.upload(MP4),
    account.api.upload(wav()),
  ]);
  files = { image, video, audio };
  const card = (await apiOf({ baseUrl: stack.api.baseUrl }).get('/pricing')).body as {
    capabilities: { capability: string; enabled: boolean }[];
  };
  enabled = new Set(card.capabilities.filter((one) => one.enabled).map(({ capability }) => capability));
}, 240_000);

type Body = Record<string, unknown>;
/** A valid body of each submit, and faulty fields of invalid ones. */
const SUBMITS: Record<string, { good: () => Body; better?: Body[]; wrong: [string, Body][] }> = {
  'character-swap': {
    good: () => ({ video_key: files.video, character_key: files.image }),
    better: [{ resolution: '1k' }, { resolution: '2k' }],
    wrong: [
      ['resolution is `1k` or `2k`', { resolution: '4k' }],
      ['resolution is `1k` or `2k`', { resolution: 1 }],
      ['video_key is required', { video_key: undefined }],
      ['character_key is required', { character_key: undefined }],
      ['a malformed file_key', { character_key: 'face.png' }],
      ['callback_url is a URL', { callback_url: 'nowhere' }],
    ],
  },
  'face-swap': {
    good: () => ({ video_key: files.video, face_key: files.image }),
    better: [{ output_resolution_p: 480 }, { output_resolution_p: 720 }, { output_resolution_p: 1080 }],
    wrong: [
      ['Any other value is rejected', { output_resolution_p: 481 }],
      ['Any other value is rejected', { output_resolution_p: '720' }],
      ['Any other value is rejected', { output_resolution_p: 720.5 }],
      ['video_key is required', { video_key: undefined }],
      ['face_key is required', { face_key: null }],
      ['a malformed file_key', { video_key: 'https://example.com/clip.mp4' }],
    ],
  },
  'motion-control': {
    good: () => ({ image_key: files.image, motion_video_key: files.video }),
    wrong: [
      ['image_key is required', { image_key: undefined }],
      ['motion_video_key is required', { motion_video_key: undefined }],
      ['a malformed file_key', { motion_video_key: 'motion' }],
    ],
  },
  avatar: {
    good: () => ({ image_key: files.image, script: 'Good morning.' }),
    better: [
      { script: 'x'.repeat(5_000) },
      // Characters are code points, so these 5,000 take 10,000 code units and 20,000 bytes.
      { script: '😀'.repeat(5_000) },
      { language: 'en', output_resolution_p: 720 },
    ],
    wrong: [
      ['script is required', { script: undefined }],
      ['script is not empty', { script: '' }],
      ['Up to 5,000 characters', { script: 'x'.repeat(5_001) }],
      ['Up to 5,000 characters', { script: '😀'.repeat(5_001) }],
      ['script is a string', { script: 5 }],
      ['image_key is required', { image_key: undefined }],
      ['output_resolution_p: 480, 720 or 1080', { output_resolution_p: 360 }],
      ['language is a string', { language: 7 }],
      ['voice_id is a string', { voice_id: ['a'] }],
    ],
  },
  'lip-sync': {
    good: () => ({ video_key: files.video, audio_key: files.audio }),
    better: [{ output_resolution_p: 1080 }],
    wrong: [
      ['video_key is required', { video_key: undefined }],
      ['audio_key is required', { audio_key: undefined }],
      ['a malformed file_key', { audio_key: 'audio.wav' }],
      ['output_resolution_p: 480, 720 or 1080', { output_resolution_p: 4320 }],
    ],
  },
};

describe.each(Object.entries(SUBMITS))('POST /%s', (capability, { good, better = [], wrong }) => {
  test('A capability switched off yields `capability_unavailable` (400), and costs nothing', async () => {
    for (const extra of [{}, ...better]) {
      const answer = await account.api.post(`/${capability}`, { ...good(), ...extra });
      if (!enabled.has(capability)) expectError(answer, 'capability_unavailable');
      else {
        expect(answer.status, answer.text).toBe(200);
        // These renders do not matter here, and 5,000 letters spoken one by one keep the stack's only slot busy for
        // minutes.
        const { id } = answer.body as { id: string };
        const cancelled = await account.api.request('POST', `/jobs/${id}/cancel`);
        expect(cancelled.status, cancelled.text).toBe(200);
      }
    }
    if (!enabled.has(capability)) expect((await account.api.balance()).balance_usd).toBe(100);
  });

  test.each(wrong)(
    'Any field failing validation yields `invalid_input` (400): %s (%o)',
    async (_rule, change) => {
      const answer = await account.api.post(`/${capability}`, { ...good(), ...change });
      expect(expectError(answer, 'invalid_input')).toContain(Object.keys(change)[0]);
    },
  );

  test('malformed JSON is `invalid_input`', async () => {
    const answer = await account.api.request('POST', `/${capability}`, {
      headers: { 'content-type': 'application/json' },
      body: '{"video_key"',
    });
    expectError(answer, 'invalid_input');
  });
});
