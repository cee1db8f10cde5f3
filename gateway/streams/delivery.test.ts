import { describe, expect, it } from 'vitest';
import { Delivery } from './delivery.ts';

describe('a client that answers pings', () => {
  it('is asked after every so many units, and is known to have read them', () => {
    const delivery = new Delivery(100);
    expect([60, 60].map((units) => delivery.sent(units, 0))).toEqual([undefined, 1]);
    expect([delivery.unread, delivery.isConfirmed]).toEqual([120, false]);
    expect(delivery.read(1, 5)).toBeUndefined();
    expect([delivery.unread, delivery.isConfirmed]).toEqual([0, true]);
    expect([100, 100, 50].map((units) => delivery.sent(units, 10))).toEqual([2, 3, undefined]);
    delivery.read(3, 20);
    expect(delivery.unread, 'a pong answers for those before').toBe(50);
    expect(delivery.waited(30)).toBe(0);
  });

  it('is waited for from the oldest ping on', () => {
    const delivery = new Delivery(1);
    delivery.sent(1, 0);
    delivery.read(1, 0);
    delivery.sent(1, 100);
    delivery.sent(1, 900);
    expect(delivery.waited(1_000)).toBe(900);
    delivery.read(2, 1_000);
    expect(delivery.waited(1_000)).toBe(100);
    delivery.restart(5_000);
    expect(delivery.waited(5_001)).toBe(1);
  });

  it('has no more than 20 pings to answer at once, and what came after them is asked for then', () => {
    const delivery = new Delivery(1);
    delivery.sent(1, 0);
    delivery.read(1, 0);
    const asked = Array.from({ length: 50 }, () => delivery.sent(1, 0)).filter(Boolean);
    expect(asked).toHaveLength(20);
    expect(delivery.read(21, 0), 'the rest, in one').toBe(22);
    expect(delivery.unread).toBe(30);
    delivery.read(22, 0);
    expect(delivery.unread).toBe(0);
  });
});

describe('a client that does not', () => {
  it('is asked once, and not judged', () => {
    const delivery = new Delivery(10);
    expect(Array.from({ length: 100 }, () => delivery.sent(10, 0)).filter(Boolean)).toEqual([1]);
    expect(delivery.isConfirmed).toBe(false);
  });

  it.each([0, -1, 2, 1.5, Number.NaN, Infinity])('a pong of its own making changes nothing: %s', (number) => {
    const delivery = new Delivery(10);
    delivery.sent(10, 0);
    delivery.read(number, 0);
    expect([delivery.unread, delivery.isConfirmed]).toEqual([10, false]);
  });
});
