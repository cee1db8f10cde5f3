import { expect, it } from 'vitest';
import { closeReason, endingFor, faultOf } from './endings.ts';

it.each([
  ['too_fast', 'more than 25 pictures a second', 'too_fast: more than 25 pictures a second'],
  ['closed', '', 'closed'],
  ['cancelled', 'x'.repeat(200), `cancelled: ${'x'.repeat(112)}`],
] as const)('%s: %s', (name, text, reason) => {
  expect(closeReason({ name, text })).toBe(reason);
});

it('a reason is cut between characters, to what a close frame has room for', () => {
  for (let i = 0; i < 4; i++) {
    const reason = closeReason({ name: 'cancelled', text: 'a'.repeat(i) + '😀'.repeat(40) });
    expect(Buffer.byteLength(reason)).toBeLessThanOrEqual(123);
    expect(Buffer.byteLength(reason)).toBeGreaterThan(119);
    expect(reason).toMatch(/😀$/u);
  }
});

it.each([
  ['too_fast', 'more than 500 messages a second', 'too_fast: more than 500 messages a second'],
  ['too_big', '', 'too_big'],
  ['closed', '', undefined],
  ['gone', '', undefined],
  ['timed_out', 'nothing was heard for 20 s', undefined],
  ['going_away', 'the gateway is ending', undefined],
] as const)('what the client did when it ends as %s', (name, text, fault) => {
  expect(faultOf({ name, text })).toBe(fault);
});

it('a session nothing came of ends its socket as one that timed out', () => {
  expect(endingFor('no_stream', '').name).toBe('timed_out');
});
