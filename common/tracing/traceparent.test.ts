import { describe, expect, it } from 'vitest';
import { formatTraceparent, parseTraceparent } from './traceparent.ts';

const trace = '4bf92f3577b34da6a3ce929d0e0e4736';
const span = '00f067aa0ba902b7';

describe('parseTraceparent', () => {
  it.each([
    [`00-${trace}-${span}-01`, 1],
    [`00-${trace}-${span}-00`, 0],
    [`00-${trace}-${span}-03`, 1],
    [`01-${trace}-${span}-01-what-may-come`, 1],
  ])('reads %s', (text, traceFlags) => {
    const context = { traceId: trace, spanId: span, traceFlags };
    expect(parseTraceparent(text)).toEqual(context);
    expect(formatTraceparent(context)).toBe(`00-${trace}-${span}-0${traceFlags}`);
  });

  it.each([
    undefined,
    '',
    'x',
    `00-${trace}-${span}`,
    `00-${trace}-${span}-01-more`,
    `ff-${trace}-${span}-01`,
    `00-${trace.toUpperCase()}-${span}-01`,
    `00-${'0'.repeat(32)}-${span}-01`,
    `00-${trace}-${'0'.repeat(16)}-01`,
    ` 00-${trace}-${span}-01`,
    `01-${trace}-${span}-01-${'x'.repeat(600)}`,
  ])('takes %j for none', (text) => {
    expect(parseTraceparent(text)).toBeUndefined();
  });
});
