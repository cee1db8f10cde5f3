import { createHmac, timingSafeEqual } from 'node:crypto';
import { expect, test } from 'vitest';
import { signatureHeader } from './signature.ts';

/** Verifies as a receiver does: any matching v1, over the raw bytes. */
function verify(header: string, body: string, secret: string): boolean {
  const parts = header.split(',').map((part) => part.split('=') as [string, string]);
  const t = parts.find(([name]) => name === 't')?.[1];
  const expected = createHmac('sha256', secret).update(`${t}.${body}`).digest();
  return parts.some(([name, value]) => name === 'v1' && timingSafeEqual(Buffer.from(value, 'hex'), expected));
}

test('the signature is the HMAC-SHA256 of `<t>.<raw body>`, in hexadecimal', () => {
  // Computed with: printf '1700000000.{"a":1}' | openssl dgst -sha256 -hmac whsec_test
  expect(signatureHeader(['whsec_test'], 1_700_000_000, '{"a":1}')).toBe(
    't=1700000000,v1=38877139021993b830af32feea6e18a8da83eb2f6e49ee50bd9e4cf4ca4d3789',
  );
});

test('while two secrets are valid, a receiver that knows either accepts; one that knows neither does not', () => {
  const body = '{"name":"é"}';
  const header = signatureHeader(['new', 'old'], 1, body);
  expect(header.match(/v1=/g)).toHaveLength(2);
  expect([verify(header, body, 'new'), verify(header, body, 'old'), verify(header, body, 'other')]).toEqual([
    true,
    true,
    false,
  ]);
  expect(verify(header, `${body} `, 'new')).toBe(false);
});
