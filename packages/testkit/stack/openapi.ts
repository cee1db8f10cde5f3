import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import type { Answer } from './api.ts';

type Json = Record<string, unknown>;

export interface Schema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly format?: string;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly pattern?: string;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
}

export interface Parameter {
  readonly name: string;
  readonly in: 'path' | 'query' | 'header';
  readonly required: boolean;
  readonly schema: Schema;
}

export interface Operation {
  readonly method: string;
  /** Path as the document writes it. */
  readonly path: string;
  readonly operationId: string;
  readonly security?: readonly object[];
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: {
    readonly required?: boolean;
    readonly content: Record<string, { schema: Schema }>;
  };
  readonly responses: Record<string, { headers?: Json; content?: Record<string, { schema?: Schema }> }>;
}

/** OpenAPI document of a running gateway, with a check of answers against it. */
export interface Contract {
  readonly operations: readonly Operation[];
  resolve(schema: Schema): Schema;
  /** Returns the faults of an answer; empty: the answer matches the document. */
  faultsOf(operation: Operation, answer: Answer): string[];
}

const METHODS = ['get', 'put', 'post', 'delete', 'patch'];

export async function readContract(baseUrl: string): Promise<Contract> {
  const response = await fetch(`${baseUrl}/openapi.json`);
  if (!response.ok) throw new Error(`/openapi.json answered ${response.status}`);
  const document = (await response.json()) as {
    paths: Record<string, Record<string, Operation>>;
    components: Json;
  };
  const operations = Object.entries(document.paths).flatMap(([path, item]) =>
    METHODS.flatMap((method) => {
      const operation = item[method];
      return operation ? [{ ...operation, method: method.toUpperCase(), path }] : [];
    }),
  );
  const components = document.components as { schemas: Record<string, Schema>; headers: Json };
  const ajv = new Ajv2020({ strict: false, allErrors: true });
  addFormats.default(ajv);
  const validators = new Map<unknown, ValidateFunction>();
  const validatorOf = (schema: unknown) => {
    let made = validators.get(schema);
    if (!made) {
      // The document leaves objects open for later releases; this release answers only with documented properties.
      made = ajv.compile({ ...(closed(schema) as Json), components: closed(components) });
      validators.set(schema, made);
    }
    return made;
  };

  function faultsOf({ responses }: Operation, answer: Answer): string[] {
    const said = responses[answer.status];
    if (!said) return [`the status ${answer.status} is not documented`];
    const faults: string[] = [];
    for (const [name, value] of answer.headers) {
      const header = Object.entries(components.headers).find(([known]) => known.toLowerCase() === name);
      if (!header) continue;
      const [known, { schema }] = header as [string, { schema: Schema }];
      if (!said.headers || !Object.hasOwn(said.headers, known))
        faults.push(`the header ${known} is not documented`);
      const typed = schema.type === 'integer' ? Number(value) : value;
      if (!validatorOf(schema)(typed)) faults.push(`the header ${known} is ${value}`);
    }
    if (!answer.headers.has('request-id')) faults.push('there is no Request-Id');
    const type = answer.headers.get('content-type')?.split(';')[0] ?? '';
    if (!said.content) return answer.text === '' ? faults : [...faults, 'there is a body'];
    const media = said.content[type] ?? said.content['*/*'];
    if (!media) return [...faults, `the type ${type} is not documented`];
    if (!media.schema || type !== 'application/json') return faults;
    const valid = validatorOf(media.schema);
    if (!valid(answer.body))
      faults.push(`the body ${ajv.errorsText(valid.errors)}: ${answer.text.slice(0, 300)}`);
    return faults;
  }

  return {
    operations,
    faultsOf,
    resolve(schema) {
      const name = schema.$ref?.split('/').at(-1);
      return name === undefined ? schema : (components.schemas[name] as Schema);
    },
  };
}

/** Forbids further properties in every object that names its properties. */
function closed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(closed);
  if (typeof value !== 'object' || value === null) return value;
  const made = Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, closed(inner)]));
  const isObject =
    made.type === 'object' && typeof made.properties === 'object' && made.additionalProperties === undefined;
  return isObject ? { ...made, additionalProperties: false } : made;
}
