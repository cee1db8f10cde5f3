import { Readable } from 'node:stream';
import { ApiError } from '@semblance/common/errors';
import { startTestGateway, type TestGateway } from '@semblance/testkit/gateway/test-gateway';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import type { GatewayContext } from '../http/context.ts';
import { createLinkKeys } from './link-keys.ts';

const idOf = (n: number) => `key-${String(n).padStart(26, '0')}`;

describe('a link that an API key asked for', () => {
  let t: TestGateway;
  beforeAll(async () => {
    t = await startTestGateway();
    await t.store.put('outputs/a', Readable.from([Buffer.from('bytes')]), { contentType: 'image/png' });
  });
  afterAll(() => t.close());
  const link = async (keyId?: string) =>
    t.local(await t.store.signGet('outputs/a', { expiresInSeconds: 60, ...(keyId && { keyId }) }));

  it('is refused when the key was revoked, by GET, HEAD and with ranges; those of others are not', async () => {
    t.control.revoked.add(idOf(1));
    for (const init of [{}, { method: 'HEAD' }, { headers: { range: 'bytes=0-1' } }])
      expect((await fetch(await link(idOf(1)), init)).status).toBe(403);
    const { error } = (await (await fetch(await link(idOf(1)))).json()) as { error: { message: string } };
    expect(error.message).toContain('revoked');
    for (const of of [idOf(2), undefined]) expect((await fetch(await link(of))).status).toBe(200);
  });

  it('asks nobody before its signature was judged', async () => {
    const before = t.control.count('findUsableKeys');
    const url = new URL(await link(idOf(3)));
    url.searchParams.set('key', idOf(4));
    expect((await fetch(url)).status).toBe(403);
    expect(t.control.count('findUsableKeys')).toBe(before);
  });

  it('asks once for many readers', async () => {
    const before = t.control.count('findUsableKeys');
    const url = await link(idOf(5));
    const statuses = await Promise.all(Array.from({ length: 20 }, async () => (await fetch(url)).status));
    expect(new Set(statuses)).toEqual(new Set([200]));
    expect(t.control.count('findUsableKeys')).toBe(before + 1);
  });
});

describe('what is known of keys', () => {
  let usable: Set<string>;
  let fails: boolean;
  const findUsableKeys = vi.fn(async (_ctx: GatewayContext, { keyIds }: { keyIds: string[] }) => {
    if (fails) throw new ApiError('internal_error', 'no answer');
    return { keyIds: keyIds.filter((keyId) => usable.has(keyId)) };
  });
  const keys = () => createLinkKeys({ control: { findUsableKeys }, freshMs: 30, staleMs: 200 });
  const ctx = {} as GatewayContext;
  const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
  beforeEach(() => {
    usable = new Set(['a']);
    fails = false;
    findUsableKeys.mockClear();
  });

  it('is asked again after a while, and a revocation stays', async () => {
    const known = keys();
    await known.require(ctx, 'a');
    await known.require(ctx, 'a');
    expect(findUsableKeys).toHaveBeenCalledTimes(1);
    usable.clear();
    await pause(40);
    await expect(known.require(ctx, 'a')).rejects.toMatchObject({ status: 403 });
    usable.add('a');
    await pause(40);
    await expect(known.require(ctx, 'a')).rejects.toMatchObject({ status: 403 });
    expect(findUsableKeys).toHaveBeenCalledTimes(2);
  });

  it('holds for a while when the control plane does not answer; of a key that is not known, nobody says that it is good', async () => {
    const known = keys();
    await known.require(ctx, 'a');
    fails = true;
    await pause(40);
    await known.require(ctx, 'a');
    await expect(known.require(ctx, 'b')).rejects.toMatchObject({ code: 'internal_error' });
    await pause(200);
    await expect(known.require(ctx, 'a')).rejects.toMatchObject({ code: 'internal_error' });
    fails = false;
    await known.require(ctx, 'a');
  });
});
