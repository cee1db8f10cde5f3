import { Badge, Button, Group, Modal, NativeSelect, Stack, Text } from '@mantine/core';
import { useState } from 'react';
import { useSearch } from 'wouter';
import { withQuery } from '../api/client.ts';
import type { Delivery } from '../api/types.ts';
import { localTime, t, textOf } from '../text/text.ts';
import { List } from '../ui/list.tsx';
import { byCursor, usePages } from '../ui/pages.ts';
import { Id, Status, Time } from '../ui/parts.tsx';
import { useChange } from '../ui/use-change.tsx';

interface DeliveryPage {
  readonly deliveries: readonly Delivery[];
  readonly next_cursor: string | null;
}

export function Deliveries() {
  const jobId = new URLSearchParams(useSearch()).get('job_id');
  const [state, setState] = useState('');
  const [shown, setShown] = useState<Delivery>();
  const query = usePages<DeliveryPage>(
    withQuery('/webhook-deliveries', { limit: 50, state, job_id: jobId }),
    byCursor,
    15_000,
  );
  const replay = useChange();
  const send = ({ id }: Delivery) =>
    replay.mutate({ path: `/webhook-deliveries/${id}/replay`, done: t('deliveries.replayed') });
  return (
    <Stack>
      <Group>
        <NativeSelect
          label={t('deliveries.state')}
          value={state}
          onChange={(event) => setState(event.currentTarget.value)}
          data={[
            { value: '', label: t('app.all') },
            ...['pending', 'delivered', 'abandoned'].map((value) => ({
              value,
              label: textOf('status', value),
            })),
          ]}
        />
      </Group>
      <List
        label={t('webhooks.deliveries')}
        query={query}
        rowsOf={({ deliveries }) => deliveries}
        keyOf={({ id }) => id}
        columns={[
          { name: t('deliveries.event'), cell: ({ event }) => <span className="mono">{event}</span> },
          { name: t('deliveries.state'), cell: ({ state: of }) => <Status of={of} /> },
          { name: t('deliveries.when'), cell: ({ created_at }) => <Time at={created_at} /> },
          { name: t('deliveries.to'), cell: ({ url }) => <Id>{url}</Id> },
          {
            name: t('deliveries.attempts'),
            cell: (delivery) => (
              <Button
                size="xs"
                variant="default"
                aria-label={t('deliveries.show', { count: delivery.attempts.length, id: delivery.id })}
                onClick={() => setShown(delivery)}
              >
                {delivery.attempts.length}
              </Button>
            ),
          },
          {
            name: '',
            end: true,
            cell: (delivery) => (
              <Button size="xs" variant="default" onClick={() => send(delivery)}>
                {t('deliveries.replay')}
              </Button>
            ),
          },
        ]}
        empty={{ title: t('deliveries.empty'), hint: t('deliveries.emptyHint') }}
      />
      <Modal
        opened={shown !== undefined}
        onClose={() => setShown(undefined)}
        title={t('deliveries.attempts')}
        lockScroll={false}
        closeButtonProps={{ 'aria-label': t('app.close') }}
      >
        {shown && <Attempts delivery={shown} />}
      </Modal>
    </Stack>
  );
}

function Attempts({ delivery }: { readonly delivery: Delivery }) {
  const { id, attempts, next_attempt_at } = delivery;
  return (
    <Stack gap="sm">
      <Id>{id}</Id>
      {attempts.length === 0 && <Text size="sm">{t('deliveries.none')}</Text>}
      {attempts.map(({ at, status, error, milliseconds }, i) => (
        <div key={at} className="attempt">
          <Group justify="space-between">
            <Text size="sm" fw={600}>
              {t('deliveries.attempt', { n: i + 1 })}
            </Text>
            <Badge
              variant="light"
              tt="none"
              className={error ? 'status-red' : 'status-green'}
              color={error ? 'red' : 'green'}
            >
              {status ?? t('deliveries.noAnswer')}
            </Badge>
          </Group>
          <Text size="sm">
            <Time at={at} />, {t('deliveries.took', { ms: milliseconds })}
          </Text>
          {error && <Text size="sm">{error}</Text>}
        </div>
      ))}
      {next_attempt_at && <Text size="sm">{t('deliveries.next', { time: localTime(next_attempt_at) })}</Text>}
    </Stack>
  );
}
