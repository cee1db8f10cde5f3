/**
 * @module-tag ffmpeg
 * @module-tag speech
 */
import { status } from '@grpc/grpc-js';
import { call, createClient } from '@semblance/common/grpc/client';
import { loadVoices } from '@semblance/common/voices/load-voices';
import { type Voice, voiceDefinition } from '@semblance/common/voices/voice';
import { VoiceServiceClient } from '@semblance/proto/semblance/live/v1/live';
import { createHarness, type Harness } from '@semblance/testkit/gpu-agent/harness';
import { afterAll, beforeAll, expect, test } from 'vitest';

let harness: Harness;
beforeAll(async () => {
  harness = await createHarness();
});
afterAll(() => harness.close());

test('an agent makes previews, for those who have the token', async () => {
  const token = '0123456789abcdef';
  const agent = await harness.agent({ env: { SEMBLANCE_INTERNAL_TOKEN: token } });
  const voice = JSON.stringify(voiceDefinition((await loadVoices()).get('bright-tenor') as Voice));
  const [known, stranger] = [token, undefined].map((own) =>
    createClient(VoiceServiceClient, agent.address, own),
  ) as [VoiceServiceClient, VoiceServiceClient];
  const ask = (client: VoiceServiceClient) =>
    call(client.previewVoice.bind(client), { voice }, { timeoutMs: 60_000 });
  await expect(ask(stranger)).rejects.toMatchObject({ code: status.UNAUTHENTICATED });
  expect((await ask(known)).wav.subarray(8, 12).toString()).toBe('WAVE');
  const figure = await agent.figures();
  expect(figure('call_seconds_count', 'method="PreviewVoice"', 'status="OK"')).toBe(1);
  known.close();
  stranger.close();
});
