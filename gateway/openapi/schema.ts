import { z } from 'zod';

export type Json = Record<string, unknown>;

/** Converts a zod schema to the schema that stands in the document. */
export type SchemaOf = (schema: z.ZodType, io: 'input' | 'output') => Json;

const COMPONENTS = '#/components/schemas/';

/**
 * Converts a zod schema to JSON Schema 2020-12. A schema with `meta({id})` becomes a component and is referenced.
 * Objects stay open, so that clients of this release accept answers of a later one.
 */
export function toSchema(schema: z.ZodType, io: 'input' | 'output', components: Json): Json {
  const made = z.toJSONSchema(schema, {
    io,
    target: 'draft-2020-12',
    // The library drops both from the input of a schema that transforms, although they are those of the input.
    override({ zodSchema, jsonSchema }) {
      const { default: value, examples } = z.globalRegistry.get(zodSchema) ?? {};
      if (value !== undefined) jsonSchema.default = value as typeof jsonSchema.default;
      if (examples !== undefined) jsonSchema.examples = examples as typeof jsonSchema.examples;
    },
  }) as Json;
  const { $schema: _, $defs = {}, ...own } = made;
  for (const [name, definition] of Object.entries($defs as Record<string, Json>))
    components[name] = tidy(definition);
  return tidy(own) as Json;
}

function tidy(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(tidy);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).flatMap(([name, inner]): [string, unknown][] => {
    if (name === '$ref' && typeof inner === 'string') return [[name, inner.replace('#/$defs/', COMPONENTS)]];
    if (name === 'additionalProperties' && inner === false) return [];
    // What every property has says nothing.
    if (name === 'propertyNames' && Object.keys(inner as Json).every((key) => key === 'type')) return [];
    // A bound that is only that of the type `number` of JavaScript.
    if ((name === 'minimum' || name === 'maximum') && Math.abs(inner as number) === Number.MAX_SAFE_INTEGER)
      return [];
    return [[name, tidy(inner)]];
  });
  return nullable(alternatives(numbers(Object.fromEntries(entries))));
}

/**
 * Says `integer` of a number whose values are listed and whole, and `double` of other numbers: generators would take
 * single precision, which has not enough digits for dollars to the millionth.
 */
function numbers(schema: Json): Json {
  if (schema.type !== 'number') return schema;
  const listed = (
    Array.isArray(schema.enum) ? schema.enum : 'const' in schema ? [schema.const] : []
  ) as unknown[];
  const whole = listed.length > 0 && listed.every((each) => Number.isInteger(each));
  return whole ? { ...schema, type: 'integer' } : { ...schema, format: 'double' };
}

/** Writes `anyOf` for what has one of several types, for which generators know no list of types. */
function alternatives(schema: Json): Json {
  const { type, ...rest } = schema;
  if (!Array.isArray(type) || type.includes('null')) return schema;
  return { ...rest, anyOf: type.map((each) => ({ type: each })) };
}

/**
 * Writes `type: [T, 'null']` for what is T or null, where T is a plain type. Generators of clients make an optional T
 * of that, and types without a name of alternatives. A description within T comes out.
 */
function nullable(schema: Json): Json {
  const { anyOf, ...rest } = schema;
  if (!Array.isArray(anyOf) || anyOf.length !== 2 || anyOf[1]?.type !== 'null') return schema;
  const { description, ...inner } = anyOf[0] as Json;
  const outer = description === undefined ? rest : { description, ...rest };
  const plain = typeof inner.type === 'string' && !('enum' in inner);
  return plain
    ? { ...inner, ...outer, type: [inner.type, 'null'] }
    : { ...outer, anyOf: [inner, { type: 'null' }] };
}
