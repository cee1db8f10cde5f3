import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { startTestGateway, type TestGateway } from '@semblance/testkit/gateway/test-gateway';
import { request } from 'undici';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { consolePageRoutes } from './page.ts';

/** Most bytes of the first load, as they go over the wire. */
const MOST_BYTES = 200_000;

let t: TestGateway;
let page: string;
beforeAll(async () => {
  t = await startTestGateway({ console: true });
  page = await (await fetch(`${t.origin}/console`)).text();
});
afterAll(() => t.close());

/** Asks without any decoding. */
async function ask(path: string, encoding: string) {
  const answer = await request(t.origin + path, { headers: { 'accept-encoding': encoding } });
  return {
    status: answer.statusCode,
    headers: answer.headers,
    bytes: Buffer.from(await answer.body.arrayBuffer()),
  };
}

/** Returns the files that a browser loads before it shows anything: those of the page, and what they import. */
async function firstLoad(): Promise<string[]> {
  const seen = new Set<string>();
  const visit = async (path: string) => {
    if (seen.has(path)) return;
    seen.add(path);
    if (!path.endsWith('.js')) return;
    const text = await (await fetch(t.origin + path)).text();
    for (const [, name = ''] of text.matchAll(/(?:from|import)\s*["']\.\/([^"']+)["']/g))
      await visit(`/console/assets/${name}`);
  };
  for (const [, path = ''] of page.matchAll(/(?:src|href)="(\/console\/[^"]+)"/g)) await visit(path);
  return [...seen];
}

describe('the page', () => {
  it('is answered at every address of the console, never from a cache', async () => {
    for (const path of ['/console', '/console/', '/console/jobs/job-1', '/console/a/b.html']) {
      const answer = await fetch(t.origin + path);
      expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8']);
      expect(answer.headers.get('cache-control')).toBe('no-cache');
      expect(answer.headers.get('referrer-policy')).toBe('no-referrer');
      expect(await answer.text()).toContain('<div id="root">');
    }
  });

  it('has a policy that allows nothing of another host, with a nonce of its own in each answer', async () => {
    const nonces = new Set<string>();
    for (let i = 0; i < 3; i++) {
      const answer = await fetch(`${t.origin}/console`);
      const policy = answer.headers.get('content-security-policy') ?? '';
      const nonce = /'nonce-([^']+)'/.exec(policy)?.[1] ?? '';
      expect(await answer.text()).toContain(`content="${nonce}"`);
      nonces.add(nonce);
      expect(policy.replace(nonce, 'N')).toBe(
        "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-N'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
      );
    }
    expect(nonces.size).toBe(3);
  });

  it('names no other host, and no script of its own text', () => {
    expect(page).not.toMatch(/https?:\/\//);
    expect(page).not.toMatch(/<script(?![^>]* src=)/);
  });
});

describe('its files', () => {
  it('are at most 200 KB for the first load, compressed by either way', async () => {
    const files = await firstLoad();
    expect(files.length).toBeGreaterThan(3);
    for (const encoding of ['br', 'gzip']) {
      let sum = Buffer.byteLength(page);
      for (const file of files) sum += (await ask(file, encoding)).bytes.length;
      expect(sum, encoding).toBeLessThan(MOST_BYTES);
    }
  });

  it('are sent as the client can read them, and kept for ever', async () => {
    const script = /src="(\/console\/assets\/[^"]+)"/.exec(page)?.[1] ?? '';
    const plain = await ask(script, 'identity');
    expect(plain.headers['content-encoding']).toBeUndefined();
    expect(plain.headers['content-type']).toBe('text/javascript; charset=utf-8');
    expect(plain.headers['cache-control']).toBe('public, max-age=31536000, immutable');
    const br = await ask(script, 'gzip, deflate, br');
    expect([br.headers['content-encoding'], br.headers.vary]).toEqual(['br', 'Accept-Encoding']);
    expect(brotliDecompressSync(br.bytes)).toEqual(plain.bytes);
    const gzip = await ask(script, 'gzip');
    expect(gzip.headers['content-encoding']).toBe('gzip');
    expect(gunzipSync(gzip.bytes)).toEqual(plain.bytes);
  });

  it.each([
    '/console/assets/none.js',
    '/console/assets/..%2f..%2fpackage.json',
    '/console/assets/index.html',
  ])('there is no %s', async (path) => {
    expect((await ask(path, 'identity')).status).toBe(404);
  });

  it('none is read from outside the build', async () => {
    for (const path of ['/console/../package.json', '/console/%2e%2e/package.json', '/console/..%5cserve.ts'])
      expect((await ask(path, 'identity')).bytes.toString()).not.toMatch(/@semblance|import /);
  });
});

it('a gateway without it has no such page', async () => {
  const bare = await startTestGateway();
  try {
    expect((await fetch(`${bare.origin}/console`)).status).toBe(404);
  } finally {
    await bare.close();
  }
});

it('a console that was not built says what to do', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'semblance-console-'));
  try {
    expect(() => consolePageRoutes({ filesOrigin: undefined, folder })).toThrow('npm run generate:console');
  } finally {
    await rm(folder, { recursive: true });
  }
});
