import { expect, it } from 'vitest';
import { Pings } from './pings.ts';

function start() {
  const sent: unknown[] = [];
  const pongs: string[] = [];
  const written: (() => void)[] = [];
  const pings = new Pings({
    ping: (data?: unknown) => void sent.push(data),
    pong: (data: unknown, _mask?: unknown, done?: unknown) => {
      pongs.push(String(data));
      written.push(done as () => void);
    },
  });
  return { sent, pongs, written, pings };
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

it('every ping is answered, and of those that come while pongs are not read the newest', () => {
  const { pings, pongs, written } = start();
  for (let n = 0; n < 1_000; n++) pings.answer(Buffer.from(String(n)));
  expect(pongs).toEqual(Array.from({ length: 64 }, (_, n) => String(n)));
  for (const done of written.splice(0)) done();
  expect(pongs.slice(64)).toEqual(['999']);
  for (const done of written.splice(0)) done();
  pings.answer(Buffer.from('again'));
  expect(pongs.slice(65)).toEqual(['again']);
});
