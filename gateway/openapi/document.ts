import { type ApiErrorCode, httpStatusOf } from '@semblance/common/errors';
import { z } from 'zod';
import type { Answer, Operation, Route } from './operation.ts';
import { ERROR_MEANINGS, errorEnvelope, RATE_LIMIT_HEADERS, RESPONSE_HEADERS } from './parts.ts';
import { type Json, toSchema } from './schema.ts';
import { describeAccountWebhook, describeJobWebhook } from './webhook.ts';

export interface DocumentOptions {
  readonly routes: readonly Route[];
  /** Path of the base address, such as `/api/v1`. */
  readonly prefix: string;
  /** Origin at which clients reach the gateway, such as `https://render.example.com`. */
  readonly publicUrl: string;
  readonly version: string;
  /** Schemas that no body or answer names, such as those of events. */
  readonly schemas?: readonly z.ZodType[];
}

const COMPONENTS = '#/components/schemas/';

/** Builds the OpenAPI 3.1 document of the routes from the schemas that validate. */
export function createDocument(options: DocumentOptions): Json {
  const { routes, prefix, publicUrl, version, schemas = [] } = options;
  const components: Json = {};
  const schemaOf = (schema: z.ZodType, io: 'input' | 'output') => toSchema(schema, io, components);
  for (const schema of [errorEnvelope, ...schemas]) schemaOf(schema, 'output');

  const paths: Record<string, Json> = {};
  for (const { method, path, scope, operation } of routes) {
    if (operation === 'internal') continue;
    paths[path] ??= /^\/(files|streams)\//.test(path)
      ? { servers: [{ url: publicUrl, description: 'The origin: links are used as they are given.' }] }
      : {};
    (paths[path] as Json)[method] = describe(operation, scope, path, schemaOf);
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Face, Video and Voice Transformation Service',
      version,
      description:
        'Upload a file, submit a job that names it by its `file_key`, and follow the job until it ends. Calls are authenticated with a bearer key and paid from a prepaid balance; a job that fails costs nothing.',
      contact: { name: 'The owner of this service', url: `${publicUrl}${prefix}/docs` },
      license: { name: 'Apache 2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: publicUrl + prefix, description: 'This service.' }],
    security: [{ bearer: [] }],
    tags: [
      { name: 'Uploads', description: 'Files to work on.' },
      { name: 'Jobs', description: 'Submit work, follow it, collect the result.' },
      { name: 'Sessions', description: 'Live streams, opened here and carried by a WebSocket.' },
      { name: 'Account', description: 'Balance, usage and prices.' },
      {
        name: 'Webhook management',
        description: 'Endpoints, the log of deliveries, and the signing secret.',
      },
      { name: 'Files', description: 'Signed, expiring links.' },
      { name: 'Service', description: 'This document.' },
      // A tag of their own: generators make a class of each, and one of calls and webhooks would lack the calls.
      { name: 'Webhooks', description: 'Calls from the service to its users.' },
    ],
    paths,
    webhooks: {
      jobEnded: { post: describeJobWebhook('jobEnded', schemaOf) },
      accountEvent: { post: describeAccountWebhook('accountEvent', schemaOf) },
    },
    components: {
      schemas: components,
      headers: RESPONSE_HEADERS,
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer', description: 'Authorization: Bearer <API_KEY>' },
      },
    },
  };
}

function describe(
  operation: Operation,
  scope: Route['scope'],
  path: string,
  schemaOf: (schema: z.ZodType, io: 'input' | 'output') => Json,
): Json {
  const { id, tag, summary, description, key, body, callback } = operation;
  const names = [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1] as string);
  const declared = operation.path?.shape ?? {};
  const pathShape = Object.fromEntries(names.map((name) => [name, declared[name] ?? z.string().min(1)]));
  const parameters = [
    ...parametersIn('path', z.object(pathShape), schemaOf),
    ...parametersIn('query', operation.query, schemaOf),
    ...parametersIn('header', operation.headers, schemaOf),
  ];
  return {
    operationId: id,
    tags: [tag],
    summary,
    description: scope === 'none' ? description : `${description}\n\nA key needs the scope \`${scope}\`.`,
    ...(scope === 'none' ? {} : { 'x-scope': scope }),
    ...(key === 'none' ? { security: [] } : key === 'optional' ? { security: [{ bearer: [] }, {}] } : {}),
    ...(parameters.length ? { parameters } : {}),
    ...(body
      ? {
          requestBody: {
            required: !body.optional,
            content: {
              [body.type]: {
                schema: schemaOf(body.schema, 'input'),
                ...(body.example === undefined ? {} : { example: body.example }),
              },
            },
          },
        }
      : {}),
    responses: {
      ...Object.fromEntries(
        operation.answers.map((answer) => [answer.status, success(answer, key, schemaOf)]),
      ),
      ...failures(operation, scope),
    },
    ...(callback ? { callbacks: callbacksOf(operation, callback, schemaOf) } : {}),
  };
}

function callbacksOf(
  { id, callbackOf }: Operation,
  address: string,
  schemaOf: (schema: z.ZodType, io: 'input' | 'output') => Json,
): Json {
  return callbackOf === 'batch'
    ? { batchFinished: { [address]: { post: describeAccountWebhook(`${id}Finished`, schemaOf) } } }
    : { jobEnded: { [address]: { post: describeJobWebhook(`${id}Ended`, schemaOf) } } };
}

function success(
  answer: Answer,
  key: Operation['key'],
  schemaOf: (schema: z.ZodType, io: 'input' | 'output') => Json,
): Json {
  const { description, schema, example, headers = [] } = answer;
  const type = answer.type ?? (schema ? 'application/json' : undefined);
  const media = {
    ...(schema ? { schema: schemaOf(schema, 'output') } : {}),
    ...(example === undefined ? {} : { example }),
  };
  return {
    description,
    headers: headerRefs([
      'Request-Id',
      'Cache-Control',
      ...(key === 'none' ? [] : RATE_LIMIT_HEADERS),
      ...headers,
    ]),
    ...(type ? { content: { [type]: media } } : {}),
  };
}

/** Returns the errors of an operation by status, with each code of a status. */
function failures(
  { key, errors = [], otherErrors = [], errorHeaders = [] }: Operation,
  scope: Route['scope'],
): Json {
  const codes = new Map<number, Set<ApiErrorCode>>();
  const add = (status: number, code: ApiErrorCode) =>
    codes.set(status, (codes.get(status) ?? new Set()).add(code));
  // Invalid HTTP, such as an unknown Expect header, is refused before routing.
  add(400, 'invalid_input');
  if (key !== 'none') {
    for (const code of ['unauthorized', 'rate_limited'] as const) add(httpStatusOf(code), code);
    add(502, 'internal_error');
  }
  if (scope !== 'none') add(httpStatusOf('forbidden'), 'forbidden');
  add(500, 'internal_error');
  for (const code of errors) add(code.startsWith('capacity_') ? 502 : httpStatusOf(code), code);
  for (const { status, code } of otherErrors) add(status, code);
  return Object.fromEntries(
    [...codes].map(([status, set]) => {
      const list = [...set];
      const headers = [
        'Request-Id',
        'Cache-Control',
        ...(key === 'none' || status === 401 ? [] : RATE_LIMIT_HEADERS),
        ...(status === 429 ? ['Retry-After'] : []),
        ...(status === 401 ? ['WWW-Authenticate'] : []),
        ...errorHeaders,
      ];
      const examples = list.map((code) => [
        code,
        { value: { error: { code, message: ERROR_MEANINGS[code] } } },
      ]);
      return [
        status,
        {
          description: list.map((code) => `\`${code}\`: ${ERROR_MEANINGS[code]}`).join('\n\n'),
          headers: headerRefs(headers),
          content: {
            'application/json': {
              schema: { $ref: `${COMPONENTS}ErrorEnvelope` },
              examples: Object.fromEntries(examples),
            },
          },
        },
      ];
    }),
  );
}

function headerRefs(names: readonly string[]): Json {
  return Object.fromEntries(
    names.map((name) => {
      if (!Object.hasOwn(RESPONSE_HEADERS, name)) throw new Error(`the header ${name} is not described`);
      return [name, { $ref: `#/components/headers/${name}` }];
    }),
  );
}

function parametersIn(
  place: 'path' | 'query' | 'header',
  object: z.ZodObject | undefined,
  schemaOf: (schema: z.ZodType, io: 'input') => Json,
): Json[] {
  return Object.entries(object?.shape ?? {}).map(([name, field]) => {
    const { description, ...schema } = schemaOf(field as z.ZodType, 'input');
    return {
      name,
      in: place,
      required: place === 'path' || !(field as z.ZodType).safeParse(undefined).success,
      ...(description ? { description } : {}),
      schema,
    };
  });
}
