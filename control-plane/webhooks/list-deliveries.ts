import { ApiError } from '@semblance/common/errors';
import type { DeliveryView as Told } from '@semblance/proto/semblance/admin/v1/admin';
import { isStorable, SqlText, type Transaction } from '../storage/sql.ts';

export interface DeliveryView {
  readonly id: string;
  /** Undefined: it tells of something else than the end of a job. */
  readonly jobId: string | undefined;
  readonly accountId: string;
  /** Undefined: it goes to a `callback_url`. */
  readonly endpointId: string | undefined;
  readonly url: string;
  readonly event: string;
  readonly state: string;
  readonly attempts: readonly { readonly at: string; readonly status?: number; readonly error?: string }[];
}

interface ViewRow {
  readonly id: string;
  readonly job_id: string | null;
  readonly account_id: string;
  readonly endpoint_id: string | null;
  readonly url: string;
  readonly event: string;
  readonly state: string;
  readonly attempts: { at: string; status: number | null; error: string | null }[] | null;
}

const DELIVERY_STATES = ['pending', 'delivered', 'abandoned'];

/** Most deliveries at once. */
const MOST = 1_000;

const COLUMNS = new SqlText(
  `d.id, d.job_id, d.account_id, d.endpoint_id, d.url, d.event, d.state,
   (select jsonb_agg(jsonb_build_object('at', a.at, 'status', a.http_status, 'error', a.error) order by a.id)
    from delivery_attempts a where a.delivery_id = d.id) as attempts`,
);

export interface DeliveryFilter {
  readonly deliveryId?: string;
  readonly jobId?: string;
  readonly accountId?: string;
  readonly state?: string | undefined;
  /** Default 500. */
  readonly limit?: number;
}

/** Lists deliveries with every attempt, newest first. @throws ApiError invalid_input */
export async function listDeliveries(sql: Transaction, asked: DeliveryFilter): Promise<DeliveryView[]> {
  const { state = null, limit = 500 } = asked;
  if (state !== null && !DELIVERY_STATES.includes(state))
    throw new ApiError('invalid_input', `A state is one of ${DELIVERY_STATES.join(', ')}.`);
  if (!Number.isInteger(limit) || limit < 1 || limit > MOST)
    throw new ApiError('invalid_input', `A limit is from 1 to ${MOST}.`);
  const name = asked.deliveryId ?? asked.jobId ?? asked.accountId ?? '';
  if (!isStorable(name)) return [];
  return (await rowsOf(sql, asked, { name, state, limit })).map(viewOf);
}

/** Each way has the index that it needs: pending and abandoned deliveries are few among those of all accounts. */
function rowsOf(
  sql: Transaction,
  { deliveryId, jobId, accountId }: DeliveryFilter,
  { name, state, limit }: { name: string; state: string | null; limit: number },
): Promise<ViewRow[]> {
  if (deliveryId !== undefined)
    return sql<ViewRow[]>`select ${COLUMNS} from deliveries d where d.id = ${name}`;
  if (jobId !== undefined)
    return sql<ViewRow[]>`select ${COLUMNS} from deliveries d where d.job_id = ${name}`;
  if (accountId !== undefined)
    return sql<ViewRow[]>`
      select ${COLUMNS} from deliveries d where d.account_id = ${name} and (${state}::text is null or d.state = ${state})
      order by d.id desc limit ${limit}`;
  if (state === 'abandoned')
    return sql<ViewRow[]>`
      select ${COLUMNS} from deliveries d where d.state = 'abandoned' order by d.id desc limit ${limit}`;
  if (state === 'pending')
    return sql<ViewRow[]>`
      select ${COLUMNS} from deliveries d where d.state = 'pending' order by d.id desc limit ${limit}`;
  return sql<ViewRow[]>`
    select ${COLUMNS} from deliveries d where ${state}::text is null or d.state = ${state}
    order by d.id desc limit ${limit}`;
}

function viewOf(row: ViewRow): DeliveryView {
  return {
    id: row.id,
    jobId: row.job_id ?? undefined,
    accountId: row.account_id,
    endpointId: row.endpoint_id ?? undefined,
    url: row.url,
    event: row.event,
    state: row.state,
    attempts: (row.attempts ?? []).map(({ at, status, error }) => ({
      at: new Date(at).toISOString(),
      status: status ?? undefined,
      error: error ?? undefined,
    })),
  };
}

/** Returns a delivery as the admin service tells it. */
export function deliveryView({ id, attempts, url, jobId, ...rest }: DeliveryView): Told {
  return { deliveryId: id, ...rest, jobId: jobId ?? '', url: withoutQuery(url), attempts: [...attempts] };
}

/** Returns an address without its query, in which receivers have their secrets. */
export function withoutQuery(url: string): string {
  return url.replace(/\?.*$/s, '?…');
}
