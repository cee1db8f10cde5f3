import { ApiError } from '@semblance/common/errors';
import { newId } from '@semblance/common/ids';
import { callbackUrlFault } from '@semblance/common/submit-rules';
import { isEndpointEvent, MAX_DESCRIPTION, MAX_ENDPOINTS, TEST_EVENT } from '@semblance/common/webhook-rules';
import type { AuditFacts } from '../audit/audit.ts';
import { isStorable, type Sql, SqlText, type Transaction } from '../storage/sql.ts';
import type { CallbackHosts } from './callback-hosts.ts';
import { type DeliveryView, listDeliveries, withoutQuery } from './list-deliveries.ts';

export interface Endpoint {
  readonly id: string;
  readonly url: string;
  readonly description: string;
  readonly events: readonly string[];
  readonly enabled: boolean;
  /** Why it is not enabled: `owner`, or `failing`. */
  readonly disabledBy: string | undefined;
  /** Since when all its attempts have failed; undefined: the last one succeeded, or there was none. */
  readonly failingSince: Date | undefined;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

/** Fields of an endpoint that its account chooses; undefined ones stay as they are. */
export interface EndpointFields {
  readonly url?: string | undefined;
  readonly description?: string | undefined;
  readonly events?: readonly string[] | undefined;
  readonly enabled?: boolean | undefined;
}

const COLUMNS = new SqlText(
  `e.id, e.url, e.description, e.events, e.enabled, e.disabled_by as "disabledBy", e.failing_since as "failingSince",
   e.created_at as "createdAt", e.updated_at as "updatedAt"`,
);

type EndpointRow = { [Name in keyof Endpoint]: Exclude<Endpoint[Name], undefined> | null };

const shown = (row: EndpointRow): Endpoint =>
  ({
    ...row,
    disabledBy: row.disabledBy ?? undefined,
    failingSince: row.failingSince ?? undefined,
  }) as Endpoint;

/** Records a change in its transaction. */
export type Note = (tx: Transaction, facts: Omit<AuditFacts, 'accountId'>) => Promise<void>;

/** Manages the addresses at which accounts want their events. */
export interface Endpoints {
  /** Lists those of an account, the oldest first. */
  list(accountId: string): Promise<Endpoint[]>;
  /** @throws ApiError not_found */
  find(accountId: string, id: string): Promise<Endpoint>;
  /** @throws ApiError invalid_input */
  create(accountId: string, fields: EndpointFields, note: Note): Promise<Endpoint>;
  /** Changes some fields. Deliveries that wait for one that is disabled end. @throws ApiError invalid_input, not_found */
  change(accountId: string, id: string, fields: EndpointFields, note: Note): Promise<Endpoint>;
  /** Deletes one, and ends the deliveries that wait for it. @throws ApiError not_found */
  remove(accountId: string, id: string, note: Note): Promise<void>;
  /** Owes it a test event, whichever events it chose. @throws ApiError invalid_input if it is disabled, not_found */
  test(accountId: string, id: string): Promise<DeliveryView>;
}

export function createEndpoints(sql: Sql, hosts: CallbackHosts): Endpoints {
  async function list(accountId: string): Promise<Endpoint[]> {
    const rows = await sql<EndpointRow[]>`
      select ${COLUMNS} from webhook_endpoints e where e.account_id = ${accountId} and e.deleted_at is null order by e.id`;
    return rows.map(shown);
  }

  async function find(accountId: string, id: string): Promise<Endpoint> {
    return foundIn(sql, accountId, id);
  }

  async function create(accountId: string, fields: EndpointFields, note: Note): Promise<Endpoint> {
    const { url = '', description = '', events = [], enabled = true } = checkFields(fields);
    const address = await checkedUrl(url, accountId);
    return sql.begin(async (tx) => {
      // Creations of an account wait for each other here, so that the limit is exact.
      await tx`select 1 from account_balances where account_id = ${accountId} for no key update`;
      const [count] = await tx<{ endpoints: number }[]>`
        select count(*)::int as endpoints from webhook_endpoints where account_id = ${accountId} and deleted_at is null`;
      if ((count?.endpoints ?? 0) >= MAX_ENDPOINTS)
        throw new ApiError(
          'invalid_input',
          `An account has at most ${MAX_ENDPOINTS} endpoints: delete one first.`,
        );
      const id = newId('whe-');
      await tx`
        insert into webhook_endpoints (id, account_id, url, description, events, enabled, disabled_by)
        values (${id}, ${accountId}, ${address}, ${description}, ${events}::text[], ${enabled}, ${enabled ? null : 'owner'})`;
      const made = await foundIn(tx, accountId, id);
      await note(tx, { subject: id, after: factsOf(made) });
      return made;
    });
  }

  async function change(
    accountId: string,
    id: string,
    fields: EndpointFields,
    note: Note,
  ): Promise<Endpoint> {
    const { url, description, events, enabled } = checkFields(fields);
    await find(accountId, id);
    const address = url === undefined ? undefined : await checkedUrl(url, accountId);
    return sql.begin(async (tx) => {
      const before = await foundIn(tx, accountId, id, true);
      const on = enabled ?? before.enabled;
      // An owner who enables it again, or gives it another address, has the days of failures begin anew.
      const anew = (enabled === true && !before.enabled) || (address !== undefined && address !== before.url);
      await tx`
        update webhook_endpoints set
          url = ${address ?? before.url}, description = ${description ?? before.description},
          events = ${events ?? before.events}::text[], enabled = ${on},
          disabled_by = ${on ? null : (before.disabledBy ?? 'owner')},
          failing_since = case when ${anew} then null else failing_since end, updated_at = now()
        where id = ${id}`;
      if (!on) await tx`select end_deliveries(${id})`;
      const after = await foundIn(tx, accountId, id);
      await note(tx, { subject: id, before: factsOf(before), after: factsOf(after) });
      return after;
    });
  }

  async function remove(accountId: string, id: string, note: Note): Promise<void> {
    await sql.begin(async (tx) => {
      const before = await foundIn(tx, accountId, id, true);
      await tx`
        update webhook_endpoints set enabled = false, disabled_by = 'owner', deleted_at = now(), updated_at = now()
        where id = ${id}`;
      await tx`select end_deliveries(${id})`;
      await note(tx, { subject: id, before: factsOf(before) });
    });
  }

  async function test(accountId: string, id: string): Promise<DeliveryView> {
    return sql.begin(async (tx) => {
      const endpoint = await foundIn(tx, accountId, id);
      if (!endpoint.enabled)
        throw new ApiError('invalid_input', 'The endpoint is disabled: enable it first.');
      const data = { endpoint_id: id, message: 'This is a test. Nothing has happened.' };
      const [row] = await tx<{ id: string }[]>`
        insert into deliveries (id, account_id, event, subject, data, url, origin, endpoint_id)
        values (new_id('dlv-'), ${accountId}, ${TEST_EVENT}, ${newId('tst-')}, ${tx.json(data)}::jsonb, ${endpoint.url},
                origin_of(${endpoint.url}), ${id})
        returning id`;
      const [view] = await listDeliveries(tx, { deliveryId: row?.id ?? '' });
      if (!view) throw new Error('a delivery vanished');
      return view;
    });
  }

  /** Returns a URL in its canonical form. @throws ApiError invalid_input */
  async function checkedUrl(text: string, accountId: string): Promise<string> {
    const url = new URL(text).href;
    const fault = hosts.faultOf(url) ?? (await hosts.resolvedFaultOf(url, accountId));
    if (fault) throw new ApiError('invalid_input', `\`url\` ${fault}.`);
    return url;
  }

  return { list, find, create, change, remove, test };
}

/** @param locked whether other changes of the endpoint wait for the transaction @throws ApiError not_found */
async function foundIn(tx: Transaction, accountId: string, id: string, locked = false): Promise<Endpoint> {
  if (locked && isStorable(id))
    await tx`select 1 from webhook_endpoints where id = ${id} and account_id = ${accountId} for no key update`;
  const [row] = isStorable(id)
    ? await tx<EndpointRow[]>`
        select ${COLUMNS} from webhook_endpoints e
        where e.id = ${id} and e.account_id = ${accountId} and e.deleted_at is null`
    : [];
  if (!row) throw new ApiError('not_found', 'There is no such webhook endpoint.');
  return shown(row);
}

/** Returns what the audit keeps of an endpoint: receivers have secrets in the query of a URL. */
function factsOf({ url, events, enabled, description }: Endpoint): Record<string, unknown> {
  return { url: withoutQuery(url), events, enabled, description };
}

/** @throws ApiError invalid_input */
function checkFields(fields: EndpointFields): EndpointFields {
  const { url, description, events } = fields;
  const fault =
    (url !== undefined && prefixed('url', callbackUrlFault(url))) ||
    (description !== undefined &&
      ([...description].length > MAX_DESCRIPTION || !isStorable(description)) &&
      `\`description\` must be well-formed Unicode text of at most ${MAX_DESCRIPTION} characters`) ||
    (events !== undefined &&
      (events.length === 0 || new Set(events).size < events.length || !events.every(isEndpointEvent)) &&
      '`events` must name at least one event, and each once');
  if (fault) throw new ApiError('invalid_input', `${fault}.`);
  return fields;
}

const prefixed = (name: string, fault: string | undefined) => fault && `\`${name}\` ${fault}`;
