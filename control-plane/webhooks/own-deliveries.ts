import { ApiError } from '@semblance/common/errors';
import { parseMoment } from '@semblance/common/moment';
import type { ListWebhookDeliveriesRequest } from '@semblance/proto/semblance/control/v1/control';
import type { WebhookDelivery } from '@semblance/proto/semblance/control/v1/webhooks';
import { timestampOf } from '../storage/moments.ts';
import { isStorable, SqlText, type Transaction } from '../storage/sql.ts';
import { replayDelivery } from './deliveries.ts';
import { withoutQuery } from './list-deliveries.ts';

/** Most deliveries of a page. */
const MAX_PAGE = 200;
const DELIVERY_ID = /^dlv-[0-9a-z]{26}$/;

interface Row {
  readonly id: string;
  readonly endpoint_id: string | null;
  readonly job_id: string | null;
  readonly event: string;
  readonly state: string;
  readonly url: string;
  readonly created_at: Date;
  /** To the microsecond. */
  readonly created_at_text: string;
  readonly due_at: Date;
  readonly attempts:
    | { at: string; status: number | null; error: string | null; milliseconds: number }[]
    | null;
}

const COLUMNS = new SqlText(
  `d.id, d.endpoint_id, d.job_id, d.event, d.state, d.url, d.created_at, d.due_at,
   to_char(d.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as created_at_text,
   (select jsonb_agg(jsonb_build_object('at', a.at, 'status', a.http_status, 'error', a.error,
                                        'milliseconds', a.milliseconds) order by a.id)
    from delivery_attempts a where a.delivery_id = d.id) as attempts`,
);

type Asked = Omit<ListWebhookDeliveriesRequest, 'caller'>;

/**
 * Lists deliveries of an account with every attempt, newest first. Those that are added meanwhile come before every page
 * but the first.
 * @throws ApiError invalid_input
 */
export async function listOwnDeliveries(
  sql: Transaction,
  accountId: string,
  { deliveryId, endpointId, jobId, event, state, limit, cursor }: Asked,
): Promise<{ deliveries: WebhookDelivery[]; nextCursor: string | undefined }> {
  if (!Number.isInteger(limit) || limit < 1 || limit > MAX_PAGE)
    throw new ApiError('invalid_input', `\`limit\` is a whole number from 1 to ${MAX_PAGE}.`);
  const after = cursor === undefined ? undefined : placeIn(cursor);
  const filters = [deliveryId, endpointId, jobId, event, state].filter((text) => text !== undefined);
  if (!filters.every(isStorable)) return { deliveries: [], nextCursor: undefined };
  // One more than asked for tells whether there are more.
  const rows = await sql<Row[]>`
    select ${COLUMNS} from deliveries d
    where d.account_id = ${accountId}
      and (${deliveryId ?? null}::text is null or d.id = ${deliveryId ?? null})
      and (${endpointId ?? null}::text is null or d.endpoint_id = ${endpointId ?? null})
      and (${jobId ?? null}::text is null or d.job_id = ${jobId ?? null})
      and (${event ?? null}::text is null or d.event = ${event ?? null})
      and (${state ?? null}::text is null or d.state = ${state ?? null})
      and (${after?.id ?? null}::text is null
           or (d.created_at, d.id) < (${after?.createdAt ?? null}::timestamptz, ${after?.id ?? null}))
    order by d.created_at desc, d.id desc limit ${limit + 1}`;
  const last = rows.length > limit ? rows[limit - 1] : undefined;
  return {
    deliveries: rows.slice(0, limit).map(deliveryOf),
    nextCursor: last && Buffer.from(`${last.created_at_text} ${last.id}`).toString('base64url'),
  };
}

/** Reads a place in the list: right after a delivery. @throws ApiError invalid_input */
function placeIn(cursor: string): { readonly createdAt: string; readonly id: string } {
  const [createdAt = '', id = '', ...rest] = Buffer.from(cursor, 'base64url').toString('latin1').split(' ');
  const micros = parseMoment(createdAt);
  if (micros === undefined || !DELIVERY_ID.test(id) || rest.length > 0)
    throw new ApiError('invalid_input', '`cursor` must be the `next_cursor` of an earlier answer.');
  return { createdAt: timestampOf(micros), id };
}

/** @throws ApiError not_found */
export async function findOwnDelivery(
  sql: Transaction,
  accountId: string,
  deliveryId: string,
): Promise<WebhookDelivery> {
  const { deliveries } = await listOwnDeliveries(sql, accountId, { deliveryId, limit: 1 });
  const [delivery] = deliveries;
  if (!delivery) throw new ApiError('not_found', 'There is no such webhook delivery.');
  return delivery;
}

/**
 * Begins a delivery of an account again, under the same id. Must run in a transaction.
 * @throws ApiError not_found, or invalid_input when its endpoint is disabled
 */
export async function replayOwnDelivery(
  tx: Transaction,
  accountId: string,
  deliveryId: string,
): Promise<WebhookDelivery> {
  const { endpointId } = await findOwnDelivery(tx, accountId, deliveryId);
  if (endpointId !== undefined) {
    const [endpoint] = await tx<{ enabled: boolean }[]>`
      select enabled from webhook_endpoints where id = ${endpointId} for share`;
    if (!endpoint?.enabled)
      throw new ApiError('invalid_input', 'The endpoint of the delivery is disabled or deleted.');
  }
  await replayDelivery(tx, deliveryId);
  return findOwnDelivery(tx, accountId, deliveryId);
}

function deliveryOf(row: Row): WebhookDelivery {
  return {
    id: row.id,
    endpointId: row.endpoint_id ?? undefined,
    jobId: row.job_id ?? undefined,
    event: row.event,
    state: row.state,
    url: withoutQuery(row.url),
    createdAt: row.created_at.toISOString(),
    dueAt: row.state === 'pending' ? row.due_at.toISOString() : undefined,
    attempts: (row.attempts ?? []).map(({ at, status, error, milliseconds }) => ({
      at: new Date(at).toISOString(),
      status: status ?? undefined,
      error: error ?? undefined,
      milliseconds,
    })),
  };
}
