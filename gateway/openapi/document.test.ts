import { API_ERROR_CODES } from '@semblance/common/errors';
import { startTestGateway, type TestGateway } from '@semblance/testkit/gateway/test-gateway';
import { Validator } from '@seriousme/openapi-schema-validator';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

interface Media {
  readonly schema?: object;
  readonly example?: unknown;
  readonly examples?: Record<string, { value: unknown }>;
}

interface OperationDocument {
  readonly operationId: string;
  readonly security?: object[];
  readonly requestBody?: { content: Record<string, Media> };
  readonly responses: Record<string, { headers: object; content?: Record<string, Media> }>;
}

interface OpenApi {
  readonly paths: Record<string, Record<string, OperationDocument>>;
  readonly components: { schemas: Record<string, object>; headers: object };
}

let t: TestGateway;
let response: Response;
let document: OpenApi;

beforeAll(async () => {
  t = await startTestGateway();
  response = await fetch(`${t.base}/openapi.json`);
  document = (await response.clone().json()) as OpenApi;
});
afterAll(() => t.close());

const METHODS = ['get', 'put', 'post', 'delete', 'patch'];

function operations() {
  return Object.entries(document.paths).flatMap(([path, item]) =>
    METHODS.flatMap((method) => {
      const operation = item[method];
      return operation ? [{ path, method, operation }] : [];
    }),
  );
}

describe('GET /openapi.json', () => {
  test('needs no key and may be read from any page', () => {
    expect(response.status).toBe(200);
    expect(response.headers.get('content-type')).toMatch(/^application\/json/);
    expect(response.headers.get('access-control-allow-origin')).toBe('*');
  });

  test('is an OpenAPI 3.1 document', async () => {
    const validator = new Validator();
    const { valid, errors } = await validator.validate(
      structuredClone(document) as unknown as Record<string, unknown>,
    );
    expect(errors).toBeUndefined();
    expect(valid).toBe(true);
    expect(validator.version).toBe('3.1');
  });

  test('has every path that the router takes, and no other', () => {
    const documented = operations().map(({ method, path }) => `${method} ${path}`);
    const routed = t.gateway.routes
      .filter(({ operation }) => operation !== 'internal')
      .map(({ method, path }) => `${method} ${path}`);
    expect(documented.sort()).toEqual(routed.sort());
    const internal = t.gateway.routes.filter(({ operation }) => operation === 'internal');
    expect(
      internal.map(({ method, path }) => `${method} ${path}`),
      'for agents and services alone',
    ).toEqual(['put /files/{key}', 'delete /files/{key}', 'get /files']);
  });

  test('what it says is routed: no documented operation is an unknown path', async () => {
    for (const { method, path } of operations()) {
      if (path.startsWith('/files/')) continue;
      const base = path.startsWith('/streams/') ? t.origin : t.base;
      const url = base + path.replaceAll(/\{\w+\}/g, 'x');
      const answer = await fetch(url, { method });
      const text = await answer.text();
      expect(text, `${method} ${path}`).not.toMatch(/no such resource|This resource takes/);
    }
  });

  test('operations have ids of their own, errors in the envelope, and headers', () => {
    const ids = operations().map(({ operation }) => operation.operationId);
    expect(new Set(ids).size).toBe(ids.length);
    for (const { path, operation } of operations()) {
      for (const [status, { headers, content }] of Object.entries(operation.responses)) {
        expect(Object.keys(headers), `${path} ${status}`).toContain('Request-Id');
        if (Number(status) < 400) continue;
        expect(JSON.stringify(content?.['application/json']?.schema), `${path} ${status}`).toContain(
          'schemas/ErrorEnvelope',
        );
      }
      if (!operation.security)
        expect(Object.keys(operation.responses), path).toEqual(expect.arrayContaining(['401', '429']));
    }
  });

  test('every example is valid by the schema it stands beside', () => {
    const ajv = new Ajv2020({ strict: false, allErrors: true });
    addFormats.default(ajv);
    const validatorOf = (schema: object) => ajv.compile({ ...schema, components: document.components });
    let checked = 0;
    for (const { path, operation } of operations()) {
      const contents = [
        operation.requestBody?.content,
        ...Object.values(operation.responses).map(({ content }) => content),
      ];
      for (const [type, media] of contents.flatMap((content) => Object.entries(content ?? {}))) {
        if (!media.schema) continue;
        const examples = Object.values(media.examples ?? {}).map(({ value }) => value);
        const all = media.example === undefined ? examples : [media.example, ...examples];
        for (const example of all) {
          const valid = validatorOf(media.schema);
          expect(valid(example), `${path} ${type}: ${ajv.errorsText(valid.errors)}`).toBe(true);
          checked++;
        }
      }
    }
    expect(checked).toBeGreaterThan(100);
  });

  test('names every error code', () => {
    expect(JSON.stringify(document.components.schemas.ErrorDetail)).toContain(
      JSON.stringify(API_ERROR_CODES),
    );
  });
});

describe('GET /docs', () => {
  test('is a page whose every asset is served here, with its type, under a strict policy', async () => {
    const page = await fetch(`${t.base}/docs`);
    expect(page.headers.get('content-type')).toBe('text/html; charset=utf-8');
    expect(page.headers.get('content-security-policy')).toBe(
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    );
    const html = await page.text();
    expect(html, 'nothing inline, which the policy would not run').not.toMatch(
      /<script>|<style|style=|onload=/,
    );
    const assets = [...html.matchAll(/(?:src|href)="([^"]+)"/g)].map((match) => match[1] ?? '');
    expect(assets).toHaveLength(4);
    const types: Record<string, string> = { css: 'text/css', js: 'text/javascript', png: 'image/png' };
    for (const asset of assets) {
      const answer = await fetch(new URL(asset, `${t.base}/docs`));
      const bytes = await answer.arrayBuffer();
      expect([answer.status, answer.headers.get('content-type')?.split(';')[0]], asset).toEqual([
        200,
        types[asset.split('.').at(-1) ?? ''],
      ]);
      expect(bytes.byteLength, asset).toBeGreaterThan(100);
    }
  });

  test('serves nothing else of the library’s folder', async () => {
    for (const name of [
      'package.json',
      'index.html',
      '..%2fpackage.json',
      '%2e%2e%2f%2e%2e%2fpackage.json',
      'constructor',
    ]) {
      expect((await fetch(`${t.base}/docs/${name}`)).status, name).toBe(404);
    }
  });
});
