import { readFile } from 'node:fs/promises';
import { text as textOf } from 'node:stream/consumers';
import { parseUsd } from '@semblance/common/money';
import { parse } from 'yaml';
import { z } from 'zod';
import { UsageError } from './usage.ts';

const scalar = z.union([z.string(), z.number()]);
const amount = scalar.transform((value, context) => {
  try {
    // A number in the shortest form that means it, as the file has it.
    return parseUsd(String(value)).toString();
  } catch (error) {
    context.addIssue({ code: 'custom', message: (error as Error).message });
    return z.NEVER;
  }
});

const ratesFile = z.strictObject({
  minimum_usd: amount.optional(),
  hold_units: z.number().positive().optional(),
  preview_usd: amount.optional(),
  rates: z
    .array(z.strictObject({ when: z.record(z.string(), scalar).default({}), rate_usd: amount }))
    .min(1)
    .max(16),
});

/** Fields of SetRatesRequest that a file of rates has; 64-bit numbers are texts. */
export interface RatesOfFile {
  readonly rates: readonly { readonly when: Record<string, string>; readonly rateMicros: string }[];
  readonly minimumMicros?: string;
  readonly holdMilliUnits?: string;
  readonly previewMicros?: string;
}

/**
 * Reads a file of rates: YAML with `rates`, a list of `{when, rate_usd}`, and optionally `minimum_usd`, `hold_units`
 * and `preview_usd`. @param path `-`: standard input
 * @throws UsageError
 */
export async function readRatesFile(path: string): Promise<RatesOfFile> {
  let content: unknown;
  try {
    content = parse(path === '-' ? await textOf(process.stdin) : await readFile(path, 'utf8'));
  } catch (error) {
    throw new UsageError(`--file: cannot read ${path}: ${(error as Error).message}`);
  }
  const { data, error } = ratesFile.safeParse(content);
  if (!data) throw new UsageError(`--file: ${path} is no file of rates. ${z.prettifyError(error)}`);
  return {
    rates: data.rates.map(({ when, rate_usd }) => ({
      when: Object.fromEntries(Object.entries(when).map(([name, value]) => [name, String(value)])),
      rateMicros: rate_usd,
    })),
    ...(data.minimum_usd !== undefined && { minimumMicros: data.minimum_usd }),
    ...(data.hold_units !== undefined && { holdMilliUnits: String(Math.round(data.hold_units * 1000)) }),
    ...(data.preview_usd !== undefined && { previewMicros: data.preview_usd }),
  };
}
