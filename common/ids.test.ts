import { describe, expect, it, vi } from 'vitest';
import { idAt, newId, newSecret } from './ids.ts';

describe('newId', () => {
  it('is a valid Kubernetes name behind a lower-case prefix', () => {
    expect(newId('job-')).toMatch(/^job-[0-9a-hjkmnp-tv-z]{26}$/);
  });

  it('sorts by time', () => {
    const now = vi.spyOn(Date, 'now');
    const ids = [3, 1, 2].map((ms) => {
      now.mockReturnValueOnce(1_700_000_000_000 + ms);
      return newId('');
    });
    now.mockRestore();
    expect([...ids].sort()).toEqual([ids[1], ids[2], ids[0]]);
  });

  it('does not repeat', () => {
    expect(new Set(Array.from({ length: 10_000 }, () => newId(''))).size).toBe(10_000);
  });
});

describe('newSecret', () => {
  it('carries 256 random bits', () => {
    const secret = newSecret('sk_');
    expect(secret).toMatch(/^sk_[A-Za-z0-9_-]{43}$/);
    expect(newSecret('sk_')).not.toBe(secret);
  });
});

describe('idAt', () => {
  it('sorts between the ids made before and after its moment', () => {
    const now = vi.spyOn(Date, 'now');
    const at = (ms: number) => {
      now.mockReturnValueOnce(ms);
      return newId('job-');
    };
    const [before, after] = [at(1_700_000_000_000 - 1), at(1_700_000_000_000)];
    now.mockRestore();
    const least = idAt('job-', 1_700_000_000_000);
    expect([after, least, before].sort()).toEqual([before, least, after]);
  });

  it('has the form of an id for a moment that no clock shows', () => {
    expect(idAt('job-', -5)).toBe(`job-${'0'.repeat(26)}`);
    expect(idAt('job-', Number.MAX_SAFE_INTEGER)).toMatch(/^job-[0-9a-hjkmnp-tv-z]{26}$/);
  });
});
