import fc, { type Arbitrary } from 'fast-check';
import { anyText } from '../common/any-text.ts';
import type { Contract, Schema } from './openapi.ts';

/** Meaningful values by field name: existing keys, ids of jobs. */
export type Known = Readonly<Record<string, readonly unknown[]>>;

export interface SchemaArbitraryOptions {
  readonly contract: Pick<Contract, 'resolve'>;
  readonly known?: Known;
}

/** Any JSON value. */
export const anything: Arbitrary<unknown> = fc.oneof(
  fc.jsonValue({ maxDepth: 3 }),
  anyText(),
  fc.constantFrom(
    '',
    '\0',
    'null',
    '__proto__',
    '../../etc/passwd',
    "' or 1=1 --",
    '\ud800',
    'x'.repeat(6_000),
  ),
  fc.constantFrom(-1, 0, 1e308, 2 ** 53, 0.1, -0),
);

/**
 * Creates an arbitrary of values that mostly satisfy the schema. Objects also have missing, wrong, unknown or null
 * fields.
 */
export function createSchemaArbitrary({ contract, known = {} }: SchemaArbitraryOptions) {
  function valid(schema: Schema, name = ''): Arbitrary<unknown> {
    const resolved = contract.resolve(schema);
    const listed = known[name];
    if (listed?.length)
      return fc.oneof({ weight: 3, arbitrary: fc.constantFrom(...listed) }, strict(resolved));
    return strict(resolved);
  }

  function strict(schema: Schema): Arbitrary<unknown> {
    if ('const' in schema) return fc.constant(schema.const);
    if (schema.enum) return fc.constantFrom(...schema.enum);
    const choices = schema.anyOf ?? schema.oneOf;
    if (choices) return fc.oneof(...choices.map((choice) => valid(choice)));
    const types = [schema.type ?? 'object'].flat();
    return fc.oneof(...types.map((type) => ofType(type as string, schema)));
  }

  function ofType(type: string, schema: Schema): Arbitrary<unknown> {
    switch (type) {
      case 'null':
        return fc.constant(null);
      case 'boolean':
        return fc.boolean();
      case 'integer':
        return fc.integer({ min: schema.minimum ?? -(2 ** 31), max: schema.maximum ?? 2 ** 31 });
      case 'number':
        return fc.double({ min: schema.minimum ?? -1e9, max: schema.maximum ?? 1e9, noNaN: true });
      case 'array':
        return fc.array(schema.items ? valid(schema.items) : anything, { maxLength: 4 });
      case 'string':
        return text(schema);
      default:
        return object(schema);
    }
  }

  function text({ format, pattern, minLength = 0, maxLength = 200 }: Schema): Arbitrary<string> {
    if (format === 'uri') return fc.webUrl({ withQueryParameters: true });
    if (format === 'date-time') return fc.date({ noInvalidDate: true }).map((date) => date.toISOString());
    if (pattern) return fc.stringMatching(new RegExp(pattern));
    return fc.string({ unit: 'grapheme', minLength, maxLength: Math.min(maxLength, 200) });
  }

  function object({ properties = {}, required = [] }: Schema): Arbitrary<unknown> {
    const fields = Object.entries(properties).map(([name, schema]) => {
      const good = valid(schema, name).map((value): [string, unknown][] => [[name, value]]);
      const without = fc.constant<[string, unknown][]>([]);
      const bad = anything.map((value): [string, unknown][] => [[name, value]]);
      const weightOfNone = required.includes(name) ? 1 : 8;
      return fc.oneof(
        { weight: 16, arbitrary: good },
        { weight: weightOfNone, arbitrary: without },
        { weight: 2, arbitrary: bad },
      );
    });
    const unknown = fc.array(fc.tuple(fc.string(), anything), { maxLength: 1 });
    return fc.tuple(unknown, ...fields).map((all) => Object.fromEntries(all.flat() as [string, unknown][]));
  }

  return { valid, anything };
}
