import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { ConfigError } from '@semblance/common/config';
import { describe, expect, it } from 'vitest';
import { DirectoryStore } from './directory-store.ts';
import { GatewayStore } from './gateway-store.ts';
import { openObjectStore } from './open.ts';
import { S3Store } from './s3-store.ts';

const publicUrl = 'http://gateway.test';

describe('openObjectStore', () => {
  it('opens a directory, made when missing', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'semblance-open-'));
    const url = pathToFileURL(join(folder, 'not yet', 'there')).href;
    const store = openObjectStore({ url, signingKey: Buffer.alloc(16), publicUrl });
    expect(store).toBeInstanceOf(DirectoryStore);
    await store.close();
    await rm(folder, { recursive: true });
  });

  it('opens the directory of a gateway, whose agents reach it there too unless told otherwise', async () => {
    const store = openObjectStore({
      url: 'http://gw.internal:8080',
      signingKey: Buffer.alloc(16),
      publicUrl,
    });
    expect(store).toBeInstanceOf(GatewayStore);
    const internal = { expiresInSeconds: 60, audience: 'internal' } as const;
    expect(await store.signGet('api/x', internal)).toMatch(/^http:\/\/gw\.internal:8080\/files\/api\/x\?/);
    expect(await store.signGet('api/x', { expiresInSeconds: 60 })).toMatch(
      /^http:\/\/gateway\.test\/files\//,
    );
    await store.close();
  });

  it('opens a bucket', async () => {
    const store = openObjectStore({ url: 's3://bucket?region=eu-central-1', publicUrl });
    expect(store).toBeInstanceOf(S3Store);
    await store.close();
  });

  it('puts the endpoint that clients reach into public links alone', async () => {
    process.env.AWS_ACCESS_KEY_ID ??= 'a';
    process.env.AWS_SECRET_ACCESS_KEY ??= 'b';
    const store = openObjectStore({
      url: 's3://bucket/pre?endpoint=http://s3.internal:9000&publicEndpoint=https://s3.example.com&forcePathStyle=true',
      publicUrl,
    });
    const link = { expiresInSeconds: 60 };
    const outside = new URL(await store.signGet('api/x', link));
    const inside = new URL(await store.signGet('api/x', { ...link, audience: 'internal' }));
    expect(outside.origin + outside.pathname).toBe('https://s3.example.com/bucket/pre/api/x');
    expect(inside.origin + inside.pathname).toBe('http://s3.internal:9000/bucket/pre/api/x');
    await store.close();
  });

  it.each([
    ['a directory without a signing key', { url: 'file:///tmp/x' }, /SIGNING_KEY/],
    ['a gateway without a signing key', { url: 'http://gateway:8080' }, /SIGNING_KEY.*the same/],
    [
      'a gateway with a path',
      { url: 'http://gateway:8080/files', signingKey: Buffer.alloc(16) },
      /without a path/,
    ],
    ['a bucket without a name', { url: 's3:///x' }, /SEMBLANCE_OBJECTS_URL/],
    ['a setting unknown', { url: 's3://bucket?regoin=x' }, /regoin.*known: region/],
    ['a path style that is neither', { url: 's3://bucket?forcePathStyle=yes' }, /forcePathStyle/],
  ])('refuses %s', (_name, options, message) => {
    const opening = () => openObjectStore({ publicUrl, ...options });
    expect(opening).toThrow(ConfigError);
    expect(opening).toThrow(message);
  });
});
