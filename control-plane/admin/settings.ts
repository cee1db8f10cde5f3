import { ApiError } from '@semblance/common/errors';
import { sqlState, type Transaction, violatedConstraint } from '../storage/sql.ts';

export interface Setting {
  readonly name: string;
  /** Undefined: no limit, for ever. */
  readonly value: bigint | undefined;
}

/** Returns the settings of the whole platform by their column names. */
export async function listSettings(sql: Transaction): Promise<Setting[]> {
  const [row] = await sql<Record<string, number | null | boolean>[]>`select * from settings`;
  if (!row) throw new Error('the settings are missing');
  return Object.entries(row).flatMap(([name, value]) =>
    typeof value === 'boolean' ? [] : [{ name, value: value === null ? undefined : BigInt(value) }],
  );
}

/**
 * Sets one of them, with effect within seconds.
 * @returns the former value
 * @throws ApiError invalid_input for an unknown setting, or a value that the schema refuses
 */
export async function setSetting(tx: Transaction, { name, value }: Setting): Promise<Setting> {
  await tx`select 1 from settings for update`;
  const before = (await listSettings(tx)).find((setting) => setting.name === name);
  if (!before)
    throw new ApiError('invalid_input', `There is no setting ${JSON.stringify(name.slice(0, 80))}.`);
  const rules = await tx<{ name: string; rule: string }[]>`
    select conname as name, pg_get_constraintdef(oid) as rule from pg_constraint where conrelid = 'settings'::regclass`;
  try {
    // The name was just read from the columns of the table.
    await tx(asTemplate(`update settings set ${name} = `), value ?? null);
  } catch (error) {
    const rule = rules.find((each) => each.name === violatedConstraint(error))?.rule;
    if (rule) throw new ApiError('invalid_input', `${name} must satisfy ${rule}.`);
    if (sqlState(error) === '23502') throw new ApiError('invalid_input', `${name} needs a value.`);
    if (sqlState(error) === '22003') throw new ApiError('invalid_input', `${name} cannot be that large.`);
    throw error;
  }
  return before;
}

function asTemplate(head: string): TemplateStringsArray {
  const strings = [head, ''];
  return Object.assign(strings, { raw: strings });
}
