/** The schemas of requests in the OpenAPI document, against the checks of the service. */
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { describe, expect, it } from 'vitest';
import { mediaQuery } from '../media/delete-media.ts';
import { type Json, toSchema } from '../openapi/schema.ts';
import { sessionsQuery } from '../sessions/own-sessions.ts';
import { SESSION_BODIES } from '../sessions/session-schemas.ts';
import { usageQuery } from '../usage/query.ts';
import { JOB_CAPABILITIES, submitSchema } from './submit-schemas.ts';

const ajv = new Ajv2020({ strict: false, coerceTypes: false });
addFormats.default(ajv);

const KEY = 'api/up-01k9x3v7m2q8r5t1w4y6z0abcd';

const TEXTS = [
  ...[
    '',
    ' ',
    '\t\r\n',
    '\u00a0\u2003\ufeff',
    'x',
    ' x ',
    '\0',
    'a\0b',
    '1k',
    '2k',
    '4k',
    'true',
    'false',
    'null',
  ],
  ...['x'.repeat(64), 'x'.repeat(65), '\u{1f600}'.repeat(64), '\u{1f600}'.repeat(65)],
  ...['x'.repeat(100), 'x'.repeat(101), 'x'.repeat(128), 'x'.repeat(129), '\u{1f600}'.repeat(128)],
  ...['x'.repeat(2_000), 'x'.repeat(2_001), 'x'.repeat(5_000), 'x'.repeat(5_001)],
  ...[
    '\u{1f600}'.repeat(2_000),
    '\u{1f600}'.repeat(2_001),
    '\u{1f600}'.repeat(5_000),
    '\u{1f600}'.repeat(5_001),
  ],
  ...[
    KEY,
    'api/',
    'api',
    'API/a',
    'out/a',
    `${KEY}/`,
    ` ${KEY}`,
    `${KEY}\n`,
    'api//a',
    'api/.a',
    'api/a/../b',
  ],
  ...[`api/${'x'.repeat(508)}`, `api/${'x'.repeat(509)}`, 'https://example.com/a.png', 'api/é', 'api/a?b'],
  ...['https://example.com/hook', 'http://example.com', 'https://example.com?a=b', 'https://example.com/#a'],
  ...[
    'ftp://example.com',
    'https://',
    'https://user:pw@example.com/',
    'https://user@example.com',
    'example.com',
  ],
  ...[
    'javascript:alert(1)',
    'https://exa mple.com',
    `https://example.com/${'x'.repeat(2_048)}`,
    '//example.com',
  ],
  ...['calm-alto', 'a b', 'ä', 'ses-01k9x3v7m2q8r5t1w4y6z0abcd', 'ses-1', 'SES-01K9X3V7M2Q8R5T1W4Y6Z0ABCD'],
  ...['2026-01-31', '0000-00-00', '2026-02-30', '2026-13-01', '2026-01-31T09:30:00Z', '2026-01-31T24:00:00Z'],
  ...['2026-01-31T09:30', '2026-01-31 09:30:00Z', '2026-01-31T09:30:00+25:00', 'yesterday', '1767225600'],
];
const OTHERS = [
  ...[null, true, false, 0, -0, 1, -1, 0.5, 1.5, 10, 120, 121, 240, 241, 480, 481, 720, 1080, 2 ** 53, 1e308],
  ...[
    [],
    [KEY],
    [KEY, KEY],
    Array(8).fill(KEY),
    Array(9).fill(KEY),
    ['x'],
    [null],
    {},
    { seed: 7 },
    { a: null },
  ],
  ...[
    { a: 'x'.repeat(2_000) },
    { a: 'x'.repeat(2_001) },
    { A: 1 },
    { '': 1 },
    { a: {} },
    { a: [] },
    { a: true },
  ],
  ...[Object.fromEntries(Array.from({ length: 16 }, (_, i) => [`o${i}`, i]))],
  ...[Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`o${i}`, i]))],
];
const VALUES: readonly unknown[] = [...TEXTS, ...OTHERS];

interface Checked {
  safeParse(body: unknown): { readonly success: boolean };
}

const BODIES: readonly [string, Checked & Parameters<typeof toSchema>[0], Json][] = [
  ...JOB_CAPABILITIES.map((name): [string, Checked & Parameters<typeof toSchema>[0], Json] => [
    name,
    submitSchema(name),
    SAMPLES(name),
  ]),
  ['full-live-swap', SESSION_BODIES['full-live-swap'], { duration_minutes: 5 }],
  ['voice', SESSION_BODIES.voice, {}],
];

function SAMPLES(name: (typeof JOB_CAPABILITIES)[number]): Json {
  const inputs = Object.keys(submitSchema(name).shape).filter((field) => /_key$/.test(field));
  return {
    ...Object.fromEntries(inputs.map((field) => [field, KEY])),
    ...(name === 'avatar' ? { script: 'Good morning.' } : {}),
  };
}

/** Tells what the service alone refuses, or takes beyond the schema: what a schema cannot say, or should not. */
function isSaidInWords(field: string, value: unknown): boolean {
  // Generators of clients cannot read a rule between two fields, or a length of what may be a number.
  if (['face_key', 'face_keys'].includes(field))
    return value === undefined || value === null || Array.isArray(value);
  if (field === 'engine_options') return JSON.stringify(value ?? null).length > 2_000;
  // A URL parser takes more than the form that is asked for.
  return field === 'callback_url' && typeof value === 'string' && URL.canParse(value);
}

describe.each(BODIES)('the schema of a body of %s', (_name, schema, good) => {
  const document: Json = {};
  const own = toSchema(schema, 'input', document);
  const valid = ajv.compile({ ...own, components: { schemas: document } });

  it('takes what the service takes, and refuses what it refuses, field by field', () => {
    expect([valid(good), schema.safeParse(good).success]).toEqual([true, true]);
    const shape = Object.keys((schema as unknown as { shape: Json }).shape);
    const differing: string[] = [];
    for (const field of shape) {
      const { [field]: _left, ...without } = good;
      for (const body of [without, ...VALUES.map((value) => ({ ...good, [field]: value }))]) {
        const said = valid(body);
        const done = schema.safeParse(body).success;
        if (said !== done && !isSaidInWords(field, body[field]))
          differing.push(`${field} ${JSON.stringify(body[field])?.slice(0, 60)}: ${said} in the schema`);
      }
    }
    expect(differing).toEqual([]);
  });

  it('takes no other JSON value', () => {
    for (const value of [null, true, 1, 'x', []])
      expect([JSON.stringify(value), valid(value)]).toEqual([JSON.stringify(value), false]);
  });
});

describe.each([
  ['GET /usage', usageQuery],
  ['GET /sessions', sessionsQuery],
  ['DELETE /jobs/{job_id}/media', mediaQuery],
])('a parameter of %s', (_name, query) => {
  it.each(Object.keys(query.shape))('%s has a schema that refuses what the service refuses', (name) => {
    const { type, ...schema } = toSchema(query.shape[name as never] as never, 'input', {});
    const valid = ajv.compile(type === 'integer' ? { type, ...schema } : { type, ...schema });
    for (const text of [...TEXTS, '0', '1', '100', '500', '501', '-1', '1.5', '1e2', '0x1', '١']) {
      const value = type === 'integer' ? (/^-?\d+(\.\d+)?$/.test(text) ? Number(text) : text) : text;
      const done = query.safeParse({ [name]: text }).success;
      expect([text.slice(0, 40), valid(value)]).toEqual([text.slice(0, 40), done]);
    }
  });
});
