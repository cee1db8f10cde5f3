import { afterEach, expect, test, vi } from 'vitest';
import { ConfigError } from './config.ts';
import { createRefusals } from './refusals.ts';

afterEach(() => void vi.restoreAllMocks());

test('credentials that are refused end the start after a while, anything else never does', () => {
  let now = 1_000;
  const refusals = createRefusals('SEMBLANCE_X');
  vi.spyOn(performance, 'now').mockImplementation(() => now);
  const wrong = new Error('wrong password');
  refusals.count(wrong, true);
  now += 14_999;
  refusals.count(wrong, true);
  // The server is unreachable in between. It may come back with other settings that accept the credentials.
  refusals.count(new Error('refused the connection'), false);
  now += 1_000_000;
  refusals.count(new Error('refused the connection'), false);
  refusals.count(wrong, true);
  now += 15_000;
  const ending = () => refusals.count(wrong, true);
  expect(ending).toThrow(ConfigError);
  expect(ending).toThrow('SEMBLANCE_X: wrong password');
});
