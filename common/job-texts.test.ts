import { expect, it } from 'vitest';
import { TextMissingError, textsIn, withDigests, withTexts } from './job-texts.ts';

const GIVEN = { script: 'Hello, it is me.', voice_id: 'calm-alto' };
const read = (texts: Record<string, string>) => async () => texts;
const never = () => Promise.reject(new Error('nothing is to be read'));

it('a text is a digest that only its job can turn back', async () => {
  const told = withDigests('job-1', GIVEN);
  expect(told).toEqual({ voice_id: 'calm-alto', script_sha256: expect.stringMatching(/^[0-9a-f]{64}$/) });
  expect(JSON.stringify(told)).not.toContain('Hello');
  expect(await withTexts('job-1', told, read(textsIn(GIVEN)))).toEqual(GIVEN);
  await expect(withTexts('job-2', told, read(textsIn(GIVEN)))).rejects.toThrow(TextMissingError);
  expect(withDigests('job-2', GIVEN).script_sha256).not.toBe(told.script_sha256);
});

it('another text, or none, is missed', async () => {
  const told = withDigests('job-1', GIVEN);
  const others: Record<string, string>[] = [{}, { script: 'Hello' }, { script: '' }, { other: GIVEN.script }];
  for (const texts of others)
    await expect(withTexts('job-1', told, read(texts))).rejects.toThrow(
      'the text of the parameter script_sha256 is not there',
    );
  await expect(withTexts('job-1', { script_sha256: '' }, read({ script: 'x' }))).rejects.toThrow(
    TextMissingError,
  );
});

it('a text in clear, and parameters without texts, stay as they are', async () => {
  expect(await withTexts('job-1', GIVEN, never)).toBe(GIVEN);
  expect(await withTexts('job-1', {}, never)).toEqual({});
  const plain = { output_resolution_p: '720' };
  expect(withDigests('job-1', plain)).toEqual(plain);
});

it('a digest counts where there is a text in clear beside it', async () => {
  const told = { ...withDigests('job-1', GIVEN), script: 'something else' };
  expect(await withTexts('job-1', told, read(textsIn(GIVEN)))).toEqual(GIVEN);
});
