import { describe, expect, it } from 'vitest';
import { ifRangeHolds, isNotModified, parseRange } from './range.ts';

describe('parseRange of 100 bytes', () => {
  it.each([
    ['bytes=0-9', { start: 0, end: 9 }],
    ['bytes=10-', { start: 10, end: 99 }],
    ['bytes=-10', { start: 90, end: 99 }],
    ['bytes=-1000', { start: 0, end: 99 }],
    ['bytes=90-1000', { start: 90, end: 99 }],
    ['BYTES= 1 - 2 ', { start: 1, end: 2 }],
    ['bytes=99-99', { start: 99, end: 99 }],
    ['bytes=100-', 'unsatisfiable'],
    ['bytes=-0', 'unsatisfiable'],
    ['bytes=99999999999999999999999-', 'unsatisfiable'],
    ['bytes=9-0', undefined],
    ['bytes=-', undefined],
    ['bytes=a-b', undefined],
    ['bytes=0-1,5-6', undefined],
    ['chars=0-1', undefined],
    ['', undefined],
    [undefined, undefined],
  ])('%s', (header, expected) => {
    expect(parseRange(header, 100)).toEqual(expected);
  });

  it('of an empty object is never satisfiable', () => {
    expect(parseRange('bytes=0-', 0)).toBe('unsatisfiable');
    expect(parseRange('bytes=-1', 0)).toBe('unsatisfiable');
  });
});

describe('conditions', () => {
  const current = { etag: '"v1"', lastModified: new Date('2026-01-01T00:00:00.900Z') };

  it.each([
    [undefined, true],
    ['"v1"', true],
    ['"v2"', false],
    ['W/"v1"', false],
    ['Thu, 01 Jan 2026 00:00:00 GMT', true],
    ['Thu, 01 Jan 2026 00:00:01 GMT', false],
    ['nonsense', false],
  ])('If-Range: %s', (header, holds) => {
    expect(ifRangeHolds(header, current)).toBe(holds);
  });

  it.each([
    [{ 'if-none-match': '"v1"' }, true],
    [{ 'if-none-match': 'W/"v1"' }, true],
    [{ 'if-none-match': '"v0", "v1"' }, true],
    [{ 'if-none-match': '*' }, true],
    [{ 'if-none-match': '"v0"' }, false],
    [{ 'if-none-match': '"v0"', 'if-modified-since': 'Fri, 02 Jan 2026 00:00:00 GMT' }, false],
    [{ 'if-modified-since': 'Thu, 01 Jan 2026 00:00:00 GMT' }, true],
    [{ 'if-modified-since': 'Wed, 31 Dec 2025 00:00:00 GMT' }, false],
    [{ 'if-modified-since': 'nonsense' }, false],
    [{}, false],
  ])('%o', (headers, expected) => {
    expect(isNotModified(headers, current)).toBe(expected);
  });
});
