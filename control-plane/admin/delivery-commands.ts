import type { Command } from './command.ts';
import { given, LIST_LIMIT, listLimit } from './usage.ts';

type Row = Record<string, unknown>;

/** Columns of deliveries in tables. */
export const DELIVERY_COLUMNS = [
  ...['delivery_id', 'job_id', 'account_id', 'endpoint_id', 'event', 'state', 'tries'],
  ...['last_at', 'last_status', 'last_error', 'url'],
];

/** Commands for webhook deliveries. */
export const DELIVERY_COMMANDS: readonly Command[] = [
  {
    name: 'delivery list',
    columns: DELIVERY_COLUMNS,
    help: 'Lists webhook deliveries with every attempt, the newest first.',
    flags: [
      { name: 'account', value: 'ID', required: false, help: 'of this account alone (acct-…)' },
      { name: 'state', value: 'S', required: false, help: 'those alone: pending, delivered, abandoned' },
      LIST_LIMIT,
    ],
    async run(flags, calls) {
      const { deliveries } = await calls.invoke('listDeliveries', {
        ...given(flags, 'account', 'accountId'),
        ...given(flags, 'state', 'state'),
        limit: listLimit(flags) || 100,
      });
      return (deliveries as Row[]).map(deliveryAnswer);
    },
  },
  {
    name: 'delivery replay',
    help: 'Has a delivery tried again, under the same id.',
    flags: [{ name: 'delivery', value: 'ID', required: true, help: 'the delivery (dlv-…)' }],
    async run(flags, calls) {
      const { delivery } = await calls.invoke('replayDelivery', { deliveryId: flags.get('delivery') });
      return deliveryAnswer(delivery as Row);
    },
  },
];

export function deliveryAnswer(view: Row): Row {
  const attempts = view.attempts as { at: string; status?: number; error?: string }[];
  const last = attempts.at(-1);
  return {
    delivery_id: view.deliveryId,
    job_id: view.jobId || null,
    account_id: view.accountId,
    endpoint_id: view.endpointId ?? null,
    url: view.url,
    event: view.event,
    state: view.state,
    tries: attempts.length,
    last_at: last?.at ?? null,
    last_status: last?.status ?? null,
    last_error: last?.error ?? null,
    attempts: attempts.map(({ at, status, error }) => ({ at, status: status ?? null, error: error ?? null })),
  };
}
