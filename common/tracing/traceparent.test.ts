import { describe, expect, it } from 'vitest';
import {
  annotatedTrace,
  formatTraceparent,
  joinTrace,
  parseTraceparent,
  splitTrace,
  traceAnnotations,
} from './traceparent.ts';

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

describe('a trace with what came beside it', () => {
  const parent = `00-${trace}-${span}-01`;

  it.each(['vendor=abc', 'a=1,b=2', 'rojo=00f067aa0ba902b7, congo=t61rcWkgMzE'])('keeps %s', (state) => {
    const joined = joinTrace(parent, state) ?? '';
    expect(splitTrace(joined)).toEqual({ traceparent: parent, tracestate: state });
    expect(annotatedTrace(traceAnnotations(joined))).toBe(joined);
  });

  it.each([undefined, '', 'x'.repeat(513), 'a=ü', 'a=1\r\nb: 2', ['a=1']])('drops %j', (state) => {
    expect(joinTrace(parent, state)).toBe(parent);
    expect(splitTrace(parent)).toEqual({ traceparent: parent, tracestate: undefined });
    expect(traceAnnotations(parent)).toEqual({ 'semblance.dev/traceparent': parent });
  });

  it('is none without a traceparent', () => {
    expect(joinTrace(undefined, 'a=1')).toBeUndefined();
    expect(annotatedTrace({ 'semblance.dev/tracestate': 'a=1' })).toBeUndefined();
  });
});
