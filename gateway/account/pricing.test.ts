import { ApiError } from '@semblance/common/errors';
import { startTestGateway, type TestGateway } from '@semblance/testkit/gateway/test-gateway';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';

let t: TestGateway;
beforeAll(async () => {
  t = await startTestGateway({ timing: { pricingKept: 60_000 } });
});
afterAll(() => t.close());
beforeEach(() => {
  t.control.failures.clear();
});

const read = (headers: Record<string, string> = {}) => fetch(`${t.base}/pricing`, { headers });
const asked = () => t.control.count('getPricing');

it('asks for the public card once, however many read it, and again after a failure', async () => {
  t.control.failures.set('getPricing', new ApiError('internal_error', 'no'));
  expect((await read()).status).toBe(502);
  t.control.failures.clear();
  const before = asked();
  const answers = await Promise.all(Array.from({ length: 20 }, () => read()));
  expect(answers.map(({ status }) => status)).toEqual(Array(20).fill(200));
  expect(asked() - before).toBe(1);
});

it('asks for the card of a key each time', async () => {
  await read();
  const before = asked();
  for (let i = 0; i < 3; i++) expect((await read(t.auth)).status).toBe(200);
  expect(asked() - before).toBe(3);
  expect((await read({ authorization: 'Bearer wrong' })).status).toBe(401);
  expect((await read({ authorization: '' })).status).toBe(401);
});
