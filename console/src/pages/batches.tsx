import { Progress, Stack, Text } from '@mantine/core';
import type { Batch } from '../api/types.ts';
import { t, usd } from '../text/text.ts';
import { List } from '../ui/list.tsx';
import { byCursor, usePages } from '../ui/pages.ts';
import { Confirm, Id, Page, Status, Time } from '../ui/parts.tsx';
import { useChange } from '../ui/use-change.tsx';

interface BatchPage {
  readonly batches: readonly Batch[];
  readonly next_cursor: string | null;
}

export default function Batches() {
  const query = usePages<BatchPage>('/batches?limit=50', byCursor, 10_000);
  const cancel = useChange();
  return (
    <Page title={t('batches.title')}>
      <List
        label={t('batches.title')}
        query={query}
        rowsOf={({ batches }) => batches}
        keyOf={({ id }) => id}
        columns={[
          { name: t('batches.id'), cell: ({ id }) => <Id>{id}</Id> },
          { name: t('jobs.status'), cell: ({ status }) => <Status of={status} /> },
          { name: t('nav.jobs'), cell: (batch) => <Ended of={batch} /> },
          { name: t('jobs.submitted'), cell: ({ created_at }) => <Time at={created_at} /> },
          {
            name: t('batches.held'),
            end: true,
            cell: ({ hold_usd }) => <span className="number">{usd(hold_usd)}</span>,
          },
          {
            name: t('batches.charged'),
            end: true,
            cell: ({ charged_usd }) => <span className="number">{usd(charged_usd)}</span>,
          },
          {
            name: '',
            end: true,
            cell: ({ id, status }) =>
              status === 'processing' && (
                <Confirm
                  label={t('batches.cancel')}
                  title={t('batches.cancelTitle')}
                  text={t('batches.cancelText')}
                  busy={cancel.isPending}
                  onConfirm={() =>
                    cancel.mutateAsync({ path: `/batches/${id}/cancel`, done: t('batches.cancelDone') })
                  }
                />
              ),
          },
        ]}
        empty={{ title: t('batches.empty'), hint: t('batches.emptyHint') }}
      />
    </Page>
  );
}

function Ended({ of: { jobs, counts } }: { readonly of: Batch }) {
  const done = counts.succeeded + counts.failed;
  return (
    <Stack gap={4} miw={140}>
      <Text size="sm">
        {t('batches.jobs', { done, jobs })}
        {counts.failed > 0 && `, ${t('batches.failed', { failed: counts.failed })}`}
      </Text>
      <Progress.Root size="sm">
        <Progress.Section
          value={(100 * counts.succeeded) / jobs}
          color="green"
          aria-label={t('status.succeeded')}
        />
        <Progress.Section value={(100 * counts.failed) / jobs} color="red" aria-label={t('status.failed')} />
      </Progress.Root>
    </Stack>
  );
}
