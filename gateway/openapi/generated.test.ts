/** What generators of clients and their readers need of the document. */
import { startTestGateway, type TestGateway } from '@semblance/testkit/gateway/test-gateway';
import { afterAll, beforeAll, expect, test } from 'vitest';

type Json = Readonly<Record<string, unknown>>;

let t: TestGateway;
let document: Json & { readonly components: { readonly schemas: Readonly<Record<string, Json>> } };

beforeAll(async () => {
  t = await startTestGateway();
  document = (await (await fetch(`${t.base}/openapi.json`)).json()) as typeof document;
});
afterAll(() => t.close());

const isObject = (value: unknown): value is Json => typeof value === 'object' && value !== null;

/** Calls `see` for the value and everything in it, with its path. */
function walk(value: unknown, see: (value: Json, path: string) => void, path = ''): void {
  if (!isObject(value)) return;
  see(value, path);
  for (const [name, inner] of Object.entries(value)) walk(inner, see, `${path}/${name}`);
}

/** Everything in the document but examples. */
function everything(see: (value: Json, path: string) => void): void {
  walk(document, (value, path) => {
    if (!/\/examples?\//.test(`${path}/`)) see(value, path);
  });
}

interface Field {
  readonly where: string;
  readonly schema: Json;
  readonly description: string;
  /** Whether a request may leave it out. */
  readonly optional: boolean;
}

/** Returns the fields of all objects, and all parameters. */
function fields(): Field[] {
  const found: Field[] = [];
  const requests = new Set<unknown>();
  everything(({ requestBody }, path) => {
    if (path.startsWith('/webhooks') || path.includes('/callbacks')) return;
    walk(requestBody, ({ $ref }) => typeof $ref === 'string' && requests.add($ref.split('/').at(-1)));
  });
  for (const name of Object.keys(document.components.schemas))
    if (name.endsWith('EstimateRequest')) requests.add(name);
  everything((value, path) => {
    const name = /^\/components\/schemas\/(\w+)$/.exec(path)?.[1];
    if (isObject(value.properties) && !path.endsWith('/properties')) {
      const required = (value.required ?? []) as string[];
      for (const [field, schema] of Object.entries(value.properties as Record<string, Json>))
        found.push({
          where: `${path}.${field}`,
          schema,
          description: String(schema.description ?? ''),
          optional: requests.has(name) && !required.includes(field),
        });
    }
    if ('in' in value && 'name' in value && isObject(value.schema))
      found.push({
        where: `${path} ${value.name}`,
        schema: value.schema,
        description: String(value.description ?? ''),
        optional: value.required !== true,
      });
  });
  return found;
}

const typesOf = ({ type, anyOf }: Json): unknown[] =>
  Array.isArray(anyOf) ? (anyOf as Json[]).flatMap(typesOf) : [type].flat();

test('every field and every parameter has a description: a sentence', () => {
  expect(fields().length).toBeGreaterThan(150);
  expect(
    fields()
      .filter(({ description }) => !/^[`A-Z1-9].{8,}/s.test(description))
      .map(({ where }) => where),
  ).toEqual([]);
});

test('what may be left out of a request says what holds then', () => {
  const optional = fields().filter((field) => field.optional);
  expect(optional.length).toBeGreaterThan(40);
  expect(
    optional.filter(({ description }) => !/left out/i.test(description)).map(({ where }) => where),
  ).toEqual([]);
});

test('no schema has a property of its own name, which generated classes would confuse with their instance', () => {
  for (const [name, schema] of Object.entries(document.components.schemas)) {
    const own = name.replace(/(?!^)([A-Z])/g, '_$1').toLowerCase();
    expect(Object.keys((schema.properties as Json) ?? {}), name).not.toContain(own);
  }
});

const UNITS =
  /US dollars|[Ss]econds?|[Mm]inutes|pixels|entries|[Cc]alls|[Ff]aces|files|jobs|attempt|[Uu]nits|rates|Share|[Nn]umber of/;

test('a number says what it counts, and has bounds', () => {
  const numbers = fields().filter(({ schema }) =>
    typesOf(schema).some((type) => type === 'integer' || type === 'number'),
  );
  expect(numbers.length).toBeGreaterThan(40);
  for (const { where, schema, description } of numbers) {
    expect(description, where).toMatch(UNITS);
    const inner = (Array.isArray(schema.anyOf) ? schema.anyOf[0] : schema) as Json;
    const bounded = 'minimum' in inner || 'enum' in inner || /may be below zero/.test(description);
    expect(bounded, `${where} has a bound`).toBe(true);
    // A bound that is only one of JavaScript tells nothing.
    expect(Math.abs((inner.maximum as number) ?? 0), where).toBeLessThan(Number.MAX_SAFE_INTEGER);
  }
});

test('what is whole is an integer', () => {
  everything((value, path) => {
    const listed = Array.isArray(value.enum) ? value.enum : [];
    if (listed.length > 0 && listed.every((each) => Number.isInteger(each)))
      expect([value.type].flat(), path).toContain('integer');
    if (![value.type].flat().includes('number') || path.includes('/anyOf/')) return;
    expect(path, 'dollars, seconds with fractions, shares and units alone').toMatch(
      /_usd$|_sec$|progress$|units$|\/share$|FaceBox\/properties\/\w+$/,
    );
    expect(value.format, `${path}: single precision would lose the millionths`).toBe('double');
  });
});

test('an error is the same schema everywhere', () => {
  let seen = 0;
  everything(({ responses }, path) => {
    if (!isObject(responses) || /webhooks|callbacks/.test(path)) return;
    for (const [status, answer] of Object.entries(responses as Record<string, Json>)) {
      if (Number(status) < 400) continue;
      const content = answer.content as { 'application/json': { schema: Json } };
      expect(content['application/json'].schema, `${path} ${status}`).toEqual({
        $ref: '#/components/schemas/ErrorEnvelope',
      });
      seen++;
    }
  });
  expect(seen).toBeGreaterThan(100);
});

test('no schema has two names, and no name two schemas', () => {
  const names = Object.keys(document.components.schemas);
  const written = (name: string) => name.toLowerCase().replaceAll(/[^a-z0-9]/g, '');
  expect(new Set(names.map(written)).size).toBe(names.length);
  everything((value, path) => {
    // A title is a second name: generators take it for the type.
    if (typeof value.title === 'string') expect(path).toBe('/info');
    // An object without a name gets one of its parent and its field, which may be that of another.
    if (isObject(value.properties) && !path.endsWith('/properties'))
      expect(path).toMatch(/^\/components\/schemas\/\w+$/);
  });
});

test('alternatives are named schemas, plain types, or something and null', () => {
  everything(({ anyOf, oneOf, allOf }, path) => {
    expect(allOf, path).toBeUndefined();
    if (Array.isArray(oneOf)) for (const each of oneOf) expect(each, path).toHaveProperty('$ref');
    if (!Array.isArray(anyOf)) return;
    const plain = anyOf.every((each) => Object.keys(each).join() === 'type');
    const orNull =
      anyOf.length === 2 && anyOf[1].type === 'null' && ('$ref' in anyOf[0] || 'enum' in anyOf[0]);
    expect(plain || orNull, path).toBe(true);
  });
});

test('servers are absolute: those at which clients reach the gateway', () => {
  everything(({ servers }, path) => {
    for (const { url } of (servers ?? []) as { url: string }[])
      expect(['http://gateway.test/api/v1', 'http://gateway.test'], path).toContain(url);
  });
  expect(document.servers).toEqual([expect.objectContaining({ url: expect.stringMatching(/\/api\/v1$/) })]);
});

test('webhooks are described, and each submit says that it calls one', () => {
  const { jobEnded, accountEvent } = document.webhooks as Record<string, { post: Json }>;
  const webhook = ({ operationId: _, ...rest }: Json) => rest;
  const submits: string[] = [];
  for (const [path, { post }] of Object.entries(document.paths as Record<string, { post?: Json }>)) {
    const properties = document.components.schemas[schemaOf(post)]?.properties as Json | undefined;
    const takes = properties !== undefined && 'callback_url' in properties;
    expect(post?.callbacks !== undefined, path).toBe(takes);
    if (!takes) continue;
    submits.push(path);
    const callbacks = (post?.callbacks ?? {}) as Record<string, Record<string, { post: Json }>>;
    const [ended, told] =
      path === '/batches' ? [callbacks.batchFinished, accountEvent] : [callbacks.jobEnded, jobEnded];
    expect(webhook(ended?.['{$request.body#/callback_url}']?.post ?? {})).toEqual(webhook(told?.post ?? {}));
  }
  expect(submits).toHaveLength(7);
  // openapi-generator writes a class for each tag, and that of the webhooks would take the place of that of the calls.
  expect(jobEnded?.post.tags).toEqual(['Webhooks']);
  for (const item of Object.values(document.paths as Record<string, Record<string, Json>>))
    for (const { tags } of Object.values(item)) expect(tags ?? []).not.toContain('Webhooks');
});

function schemaOf(operation: Json | undefined): string {
  const body = operation?.requestBody as { content: Record<string, { schema: Json }> } | undefined;
  return String(body?.content['application/json']?.schema.$ref ?? '')
    .split('/')
    .at(-1) as string;
}
