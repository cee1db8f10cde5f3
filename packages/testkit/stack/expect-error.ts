import { expect } from 'vitest';
import type { Answer } from './api.ts';

/** Statuses that each error code of the specification may have. */
const ERROR_STATUSES: Readonly<Record<string, readonly number[]>> = {
  unauthorized: [401],
  insufficient_balance: [402],
  invalid_input: [400],
  unsupported_format: [400],
  input_too_large: [400],
  capability_unavailable: [400],
  not_found: [404],
  rate_limited: [429],
  at_capacity: [429],
  capacity_unavailable: [502],
  capacity_warming: [502],
  internal_error: [500, 502],
};

/**
 * Asserts that the answer is an error envelope with a code of the specification and a matching status. Returns the
 * code.
 */
export function expectEnvelope(answer: Pick<Answer, 'status' | 'headers' | 'body' | 'text'>): string {
  const told = `${answer.status} ${answer.text.slice(0, 300)}`;
  expect(answer.headers.get('content-type'), told).toMatch(/^application\/json\b/);
  expect(answer.body, told).toEqual({ error: { code: expect.any(String), message: expect.any(String) } });
  const { error } = answer.body as { error: { code: string; message: string } };
  expect(Object.keys(ERROR_STATUSES), told).toContain(error.code);
  expect(ERROR_STATUSES[error.code], told).toContain(answer.status);
  expect(error.message.trim(), told).not.toBe('');
  // Internal details belong in logs, not in answers.
  expect(error.message, told).not.toMatch(/node_modules|\.ts:\d|\bat .*\(|ECONN|undefined|\[object/);
  return error.code;
}

/** Asserts that the answer is an error with this code; returns its message. */
export function expectError(
  answer: Pick<Answer, 'status' | 'headers' | 'body' | 'text'>,
  ...codes: string[]
): string {
  const code = expectEnvelope(answer);
  expect(codes, `${answer.status} ${answer.text}`).toContain(code);
  return (answer.body as { error: { message: string } }).error.message;
}
