import { describe, expect, it } from 'vitest';
import { createChanges } from './changes.ts';

describe('waiting for a condition', () => {
  it('resolves at once when it holds, and otherwise after the change that makes it hold', async () => {
    const changes = createChanges();
    const { signal } = new AbortController();
    let count = 1;
    await changes.until(() => count === 1, signal);
    let over = false;
    const waiting = changes.until(() => count === 3, signal).then(() => (over = true));
    count = 2;
    changes.changed();
    await Promise.resolve();
    expect(over).toBe(false);
    count = 3;
    changes.changed();
    await waiting;
    expect(over).toBe(true);
  });

  it('resolves when the signal aborts', async () => {
    const stop = new AbortController();
    const waiting = createChanges().until(() => false, stop.signal);
    stop.abort();
    await waiting;
  });
});
