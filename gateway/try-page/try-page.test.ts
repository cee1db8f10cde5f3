import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { startTestGateway, type TestGateway } from '@semblance/testkit/gateway/test-gateway';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

/** The part of a canvas that is used here. */
interface Drawing {
  readonly canvas: { readonly width: number; readonly height: number };
  fillStyle: string;
  fillRect(left: number, top: number, width: number, height: number): void;
  getImageData(left: number, top: number, width: number): { readonly data: Uint8ClampedArray };
}

/** Written for browsers, and checked by their types. */
const script: string = './page/frame-number.js';
const { drawNumber, NUMBERS, readNumber } = (await import(script)) as {
  readonly NUMBERS: number;
  drawNumber(context: Drawing, number: number): void;
  readNumber(context: Drawing): number | undefined;
};

let t: TestGateway;
let without: TestGateway;
beforeAll(async () => {
  [t, without] = await Promise.all([startTestGateway({ tryPage: true }), startTestGateway()]);
});
afterAll(() => Promise.all([t.close(), without.close()]));

describe('GET /try', () => {
  it('is a page that loads nothing from elsewhere, and whose files are all there', async () => {
    const page = await fetch(`${t.base}/try`);
    expect(page.status).toBe(200);
    expect(page.headers.get('content-type')).toBe('text/html; charset=utf-8');
    expect(page.headers.get('content-security-policy')).toMatch(/^default-src 'none'; script-src 'self';/);
    expect(page.headers.get('content-security-policy')).toContain("; connect-src 'self';");
    const html = await page.text();
    const links = [...html.matchAll(/(?:href|src)="([^"]+)"/g)].map(([, link]) => String(link));
    expect(links).toEqual(['try/icon.svg', 'try/style.css', 'try/main.js']);
    for (const link of links) expect((await fetch(`${t.base}/${link}`)).status).toBe(200);
  });

  it('serves each of its scripts, and every import of them leads to one', async () => {
    const names = readdirSync(join(import.meta.dirname, 'page')).filter((name) => name.endsWith('.js'));
    expect(names.length).toBeGreaterThan(5);
    for (const name of names) {
      const script = await fetch(`${t.base}/try/${name}`);
      expect(script.headers.get('content-type')).toBe('text/javascript; charset=utf-8');
      expect(script.headers.get('x-content-type-options')).toBe('nosniff');
      for (const [, from] of (await script.text()).matchAll(/^import .* from '\.\/(.+)';$/gm))
        expect(names).toContain(from);
    }
  });

  it.each(['tsconfig.json', 'worklet.d.ts', '..%2Ftry-page.ts', 'constructor', 'none.js'])(
    'has no file %s',
    async (name) => {
      const response = await fetch(`${t.base}/try/${name}`);
      expect(response.status).toBe(404);
      expect(await response.json()).toMatchObject({ error: { code: 'not_found' } });
    },
  );

  it('is not there unless it was switched on, and is no part of the documented API', async () => {
    expect((await fetch(`${without.base}/try`)).status).toBe(404);
    expect((await fetch(`${without.base}/try/main.js`)).status).toBe(404);
    const document = (await (await fetch(`${t.base}/openapi.json`)).json()) as { paths: object };
    expect(Object.keys(document.paths).filter((path) => path.includes('/try'))).toEqual([]);
  });
});

describe('the number in the corner of a picture', () => {
  function canvas(width = 320, height = 240) {
    const data = new Uint8ClampedArray(width * height * 4).fill(128);
    const context: Drawing = {
      canvas: { width, height },
      fillStyle: '',
      fillRect(left, top, w, h) {
        const value = context.fillStyle === '#fff' ? 255 : 0;
        for (let y = top; y < top + h; y++)
          data.fill(value, (y * width + left) * 4, (y * width + left + w) * 4);
      },
      getImageData: (left, top, w) => ({
        data: data.slice((top * width + left) * 4, (top * width + left + w) * 4),
      }),
    };
    return { context, data };
  }

  it('is read as it was drawn, each of them', () => {
    const { context } = canvas();
    for (let number = 0; number < NUMBERS; number++) {
      drawNumber(context, number);
      expect(readNumber(context)).toBe(number);
    }
  });

  it('is none where none was drawn, and where a cell was lost', () => {
    const { context, data } = canvas();
    expect(readNumber(context)).toBeUndefined();
    drawNumber(context, 1234);
    const at = ((240 - 8) * 320 + 2 * 8) * 4;
    for (let y = 0; y < 8; y++) data.fill(255, at + y * 1280, at + y * 1280 + 32);
    expect(readNumber(context)).toBeUndefined();
  });

  it('stands noise as pictures have it after they were packed', () => {
    const { context, data } = canvas();
    drawNumber(context, 3001);
    for (let i = 0; i < data.length; i++) data[i] = (data[i] ?? 0) + 90 * Math.sin(i * 12.9898);
    expect(readNumber(context)).toBe(3001);
  });
});
