import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { json } from '@semblance/testkit/control-plane/admin';
import { expect, onTestFinished, test } from 'vitest';

test('rates by size are set one by one or from a file, previewed, agreed for later, compared and reset', async () => {
  const { answer } = await json('account', 'create', '--name', 'Sizes');
  const account = ['--account', answer.account_id];
  const video = ['--capability', 'face-swap'];
  const rates = async (...args: string[]) => (await json('rates', ...args)).answer;
  const by = (lines: string, rate_usd: number) => ({ when: { output_resolution_p: lines }, rate_usd });
  const public_ = { rates: [by('480', 0.015), by('1080', 0.04), { when: {}, rate_usd: 0.025 }] };
  const cheap = ['--when', 'output_resolution_p=480', '--rate-usd', '0.01'];

  const preview = await rates('set', ...video, ...account, ...cheap, '--preview');
  expect(preview).toMatchObject({ preview: true, before: public_, minimum_usd: 0.1, hold_units: 60 });
  expect(preview.rates).toEqual([by('480', 0.01), ...public_.rates.slice(1)]);
  expect((await rates('list', ...account, ...video))[0]).toMatchObject({ account_id: null, ...public_ });

  await rates('set', ...video, ...account, ...cheap);
  const dir = await mkdtemp(join(tmpdir(), 'semblance-rates-'));
  onTestFinished(() => rm(dir, { recursive: true }));
  const file = join(dir, 'rates.yaml');
  await writeFile(
    file,
    'minimum_usd: 0.2\nhold_units: 30.5\nrates:\n  - when: { output_resolution_p: 720 }\n    rate_usd: 0.03\n  - rate_usd: 0.05\n',
  );
  const [own] = await rates('list', ...account, ...video);
  expect(own).toMatchObject({ account_id: answer.account_id, differs: true, public: public_ });
  expect(await rates('set', ...video, ...account, '--file', file)).toMatchObject({
    rates: [by('720', 0.03), { when: {}, rate_usd: 0.05 }],
    minimum_usd: 0.2,
    hold_units: 30.5,
    before: { rates: [by('480', 0.01), ...public_.rates.slice(1)] },
  });

  const later = await rates('set', ...video, ...account, '--rate-usd', '0.5', '--from', '2999-01-31');
  expect(later).toMatchObject({ starts_at: '2999-01-31T00:00:00.000Z', version: null, rate_usd: 0.5 });
  const [listed] = await rates('list', ...account, ...video);
  expect(listed.coming).toMatchObject([{ id: later.coming_id, starts_at: '2999-01-31T00:00:00.000Z' }]);
  expect(listed.rates.at(-1)).toEqual({ when: {}, rate_usd: 0.05 });
  expect((await rates('cancel', '--id', String(later.coming_id))).cancelled.id).toBe(later.coming_id);
  expect((await rates('cancel', '--id', String(later.coming_id))).error.code).toBe('not_found');

  expect(await rates('reset', ...video, ...account)).toMatchObject(public_);
  expect((await rates('reset', ...video, ...account)).error.code).toBe('not_found');
  expect(await rates('set', ...video, ...account, '--preview-usd', '0.005')).toMatchObject({
    ...{ ...public_, preview_usd: 0.005, before: { preview_usd: 0 } },
  });
  await writeFile(file, 'preview_usd: 0.25\nrates:\n  - rate_usd: 0.05\n');
  expect(await rates('set', ...video, ...account, '--file', file)).toMatchObject({ preview_usd: 0.25 });
  expect((await rates('list', ...account, ...video))[0]).toMatchObject({
    ...{ preview_usd: 0.25, differs: true, public: { preview_usd: 0 } },
  });
  expect((await rates('list', '--capability', 'avatar'))[0]).not.toHaveProperty('preview_usd');
  await rates('reset', ...video, ...account);
  expect((await rates('list', ...account, ...video))[0]).toMatchObject({ account_id: null, ...public_ });
});

test.each([
  [['--rate-usd', '1', '--when', 'output_resolution_p=360'], 'invalid_input', /480, 720, 1080/],
  [['--rate-usd', '1', '--when', 'language=de'], 'invalid_input', /the price goes by output_resolution_p/],
  [['--rate-usd', '1', '--when', 'nonsense'], 'usage', /is written as/],
  [['--when', 'output_resolution_p=480'], 'usage', /--when needs --rate-usd/],
  [[], 'usage', /needs --rate-usd/],
  [['--rate-usd', '1', '--from', '2001-01-01'], 'invalid_input', /The beginning is over/],
  [['--rate-usd', '1', '--from', 'soon'], 'invalid_input', /must be a date/],
  [['--rate-usd', '1', '--hold-units', '0'], 'invalid_input', /A hold assumes/],
  [['--preview-usd', '10001'], 'invalid_input', /price of previews/],
  [['--preview-usd', 'free'], 'usage', /preview-usd/],
  [['--file', '/nowhere/rates.yaml'], 'usage', /cannot read/],
  [['--file', '/dev/null'], 'usage', /is no file of rates/],
  [['--file', '/dev/null', '--rate-usd', '1'], 'usage', /either from --file or/],
])('rates that make no sense are refused: %j', async (flags, code, message) => {
  const { answer } = await json('rates', 'set', '--capability', 'face-swap', ...flags);
  expect(answer.error).toMatchObject({ code, message: expect.stringMatching(message) });
});
