import { apiOf } from '@semblance/testkit/stack/api';
import { eventually } from '@semblance/testkit/stack/eventually';
import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/stack/media';
import { sharedStack } from '@semblance/testkit/stack/stack';
import { expect, test } from 'vitest';

/** Addition to the specification: a link ends with the API key that asked for it. */
test('links end with their key: of uploads, jobs and events; those that another key asked for go on', async () => {
  const stack = await sharedStack();
  const account = await stack.newAccount();
  const made = await stack.admin('key', 'create', { account: account.accountId });
  const second = apiOf({ baseUrl: account.api.baseUrl, apiKey: String(made.api_key) });

  const upload = async (of: typeof second) => {
    const form = new FormData();
    form.set('file', new Blob([ASTRONAUT.bytes], { type: 'image/png' }), 'a.png');
    const headers = { authorization: `Bearer ${of === second ? made.api_key : account.apiKey}` };
    const response = await fetch(`${account.api.baseUrl}/uploads`, { method: 'POST', body: form, headers });
    return (await response.json()) as { file_key: string; url: string };
  };
  const [own, others] = [await upload(second), await upload(account.api)];
  const { id } = await account.api.swap({
    image_key: own.file_key,
    face_key: await account.api.upload(ADMIRAL),
  });
  const link = (await account.api.finished(id)).output_url ?? '';
  const asked = ((await second.get(`/jobs/${id}`)).body as { output_url: string }).output_url;
  const events = await fetch(`${account.api.baseUrl}/jobs/${id}/events`, {
    headers: { authorization: `Bearer ${made.api_key}` },
  });
  const followed = /"output_url":"([^"]+)"/.exec(await events.text())?.[1] ?? '';

  const status = async (url: string) => {
    const response = await fetch(url);
    await response.body?.cancel();
    return response.status;
  };
  const ending = [own.url, asked, followed];
  const staying = [others.url, link];
  for (const url of [...ending, ...staying]) expect(await status(url), url).toBe(200);
  await stack.admin('key', 'revoke', { key: String(made.key_id) });
  for (const url of ending)
    await eventually('the link to end', async () => (await status(url)) === 403 || undefined, {
      withinMs: 15_000,
    });
  for (const url of staying) expect(await status(url), url).toBe(200);
}, 240_000);
