import { expect, it } from 'vitest';
import { Pings } from './pings.ts';

function start() {
  const sent: unknown[] = [];
  return { sent, pings: new Pings({ ping: (data?: unknown) => void sent.push(data) }) };
}

it('each ping asks for one pong, and no more', () => {
  const { pings, sent } = start();
  expect(pings.answered()).toBe(false);
  pings.send('7');
  pings.send();
  expect(sent).toEqual(['7', '']);
  expect([pings.answered(), pings.answered(), pings.answered()]).toEqual([true, true, false]);
});

it('pongs that were left out are not saved up', () => {
  const { pings } = start();
  for (let n = 0; n < 1_000; n++) pings.send();
  let asked = 0;
  while (pings.answered()) asked++;
  expect(asked).toBe(64);
});
