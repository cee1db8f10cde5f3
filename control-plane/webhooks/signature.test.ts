import { createHmac } from 'node:crypto';
import { Webhook } from 'standardwebhooks';
import Stripe from 'stripe';
import { expect, test } from 'vitest';
import { signatureHeaders } from './signature.ts';

const OLD = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYq';
const CURRENT = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=';
const NEXT = 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oDg/gKKLDVZrA=';
const body = '{"event":"job.succeeded","data":{"name":"é"}}';

const sign = (secrets: { current: string[]; next?: string }, unixSeconds = Math.floor(Date.now() / 1000)) =>
  signatureHeaders({ next: undefined, ...secrets }, { deliveryId: 'dlv-1', unixSeconds, body });

/** Verifies as the published libraries do, each with its own headers. */
const stripe = (headers: Record<string, string>, secret: string, name = 'service-signature') =>
  Stripe.webhooks.signature?.verifyHeader(body, headers[name] ?? '', secret, 300) ?? false;
const standard = (headers: Record<string, string>, secret: string, of = body) =>
  new Webhook(secret).verify(of, headers);

test('the signature is the HMAC-SHA256 of `<t>.<raw body>`, in hexadecimal: one t, one v1', () => {
  // Computed with: printf '1700000000.{"a":1}' | openssl dgst -sha256 -hmac whsec_test
  const signed = { deliveryId: 'dlv-1', unixSeconds: 1_700_000_000, body: '{"a":1}' };
  expect(signatureHeaders({ current: ['whsec_test'], next: undefined }, signed)).toEqual({
    'service-signature': 't=1700000000,v1=38877139021993b830af32feea6e18a8da83eb2f6e49ee50bd9e4cf4ca4d3789',
  });
});

test('libraries of Stripe and of Standard Webhooks verify it, with the secret as shown', () => {
  const headers = sign({ current: [CURRENT] });
  expect(headers['service-signature']).toMatch(/^t=\d{10},v1=[0-9a-f]{64}$/);
  expect(stripe(headers, CURRENT)).toBe(true);
  expect(standard(headers, CURRENT)).toEqual(JSON.parse(body));
  expect(() => stripe(headers, NEXT)).toThrow(/signatures/i);
  expect(() => standard(headers, NEXT)).toThrow('No matching signature found');
  expect(() => standard(headers, CURRENT, `${body} `)).toThrow('No matching signature found');
  expect(() => standard({ ...headers, 'webhook-id': 'dlv-2' }, CURRENT)).toThrow(
    'No matching signature found',
  );
  const late = sign({ current: [CURRENT] }, Math.floor(Date.now() / 1000) - 301);
  expect(() => standard(late, CURRENT)).toThrow(/too old/i);
});

test('the next secret signs in a header of its own, and beside the current one where the format has several', () => {
  const headers = sign({ current: [CURRENT], next: NEXT });
  const pattern = /^t=\d{10},v1=[0-9a-f]{64}$/;
  expect([headers['service-signature'], headers['service-signature-next']]).toEqual([
    expect.stringMatching(pattern),
    expect.stringMatching(pattern),
  ]);
  expect([stripe(headers, CURRENT), stripe(headers, NEXT, 'service-signature-next')]).toEqual([true, true]);
  expect(() => stripe(headers, NEXT)).toThrow(/signatures/i);
  expect([standard(headers, CURRENT), standard(headers, NEXT)]).toEqual([JSON.parse(body), JSON.parse(body)]);
});

test('a secret of a former release, which is no base64, signs as before and has no headers of Standard Webhooks', () => {
  const headers = sign({ current: [OLD] }, 1);
  const v1 = createHmac('sha256', OLD).update(`1.${body}`).digest('hex');
  expect(headers).toEqual({ 'service-signature': `t=1,v1=${v1}` });
  const rotating = sign({ current: [OLD], next: NEXT });
  expect(stripe(rotating, OLD)).toBe(true);
  expect(standard(rotating, NEXT)).toEqual(JSON.parse(body));
});

test('a secret that a former release replaced signs too until its day is over', () => {
  const headers = sign({ current: [CURRENT, OLD] });
  expect([stripe(headers, CURRENT), stripe(headers, OLD)]).toEqual([true, true]);
});

test.each([
  'whsec_',
  'whsec_AAAA',
  `whsec_${'A'.repeat(88)}`,
  `whsec_${'A'.repeat(30)}==`,
  `${CURRENT}\n`,
  `x${CURRENT}`,
])('a secret of another length or form (%j) has no headers of Standard Webhooks', (secret) =>
  expect(sign({ current: [secret] })).not.toHaveProperty('webhook-signature'),
);

test('nothing is sent unsigned', () => {
  expect(() => sign({ current: [] })).toThrow('no signing secret');
});
