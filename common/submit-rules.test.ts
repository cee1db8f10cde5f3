import { expect, test } from 'vitest';
import { callbackUrlFault, isIdempotencyKey, MAX_CALLBACK_URL_LENGTH } from './submit-rules.ts';

test.each(['a', ' ', 'order 4711', '~'.repeat(255)])('%j is an Idempotency-Key', (key) => {
  expect(isIdempotencyKey(key)).toBe(true);
});

test.each(['', 'x'.repeat(256), 'café', 'a\tb', 'a\nb', 'a\0', 'a\n'])('%j is none', (key) => {
  expect(isIdempotencyKey(key)).toBe(false);
});

const ofLength = (length: number) =>
  `https://example.com/${'x'.repeat(length - 'https://example.com/'.length)}`;

test.each([
  'https://example.com/hook',
  'http://example.com:8080/a?b=c#d',
  'HTTPS://EXAMPLE.COM',
  'https://[2001:db8::1]/',
  ofLength(MAX_CALLBACK_URL_LENGTH),
  `https://${'a'.repeat(60)}.${'b'.repeat(192)}/`,
  'https://bücher.example/',
])('%.40s can be a callback_url', (text) => {
  expect(callbackUrlFault(text)).toBeUndefined();
});

test.each([
  ['', /absolute/],
  ['nowhere', /absolute/],
  ['/hook', /absolute/],
  ['//example.com/hook', /absolute/],
  ['https://', /absolute/],
  ['https://exa mple.com/', /absolute/],
  ['ftp://example.com/', /absolute/],
  ['file:///etc/passwd', /absolute/],
  ['javascript:alert(1)', /absolute/],
  ['https://example.com/\0', /absolute/],
  ['https://example.com/\ud800', /absolute/],
  ['https://a@example.com/', /user name or password/],
  ['https://:b@example.com/', /user name or password/],
  [ofLength(MAX_CALLBACK_URL_LENGTH + 1), /at most 2048/],
  [`https://${'a'.repeat(60)}.${'b'.repeat(193)}/`, /host of at most 253/],
  // This host has 200 letters, and 582 characters in its DNS form.
  [
    `http://${String.fromCodePoint(...Array.from({ length: 200 }, (_, i) => 0x4e00 + 37 * i))}/`,
    /host of at most 253/,
  ],
])('%.40j cannot', (text, fault) => {
  expect(callbackUrlFault(text)).toMatch(fault);
});
