import { ActionIcon, Alert } from '@mantine/core';
import type { Receipt } from '../api/types.ts';
import { bytes, t, textOf } from '../text/text.ts';
import { IconDownload } from '../ui/icons.ts';
import { List } from '../ui/list.tsx';
import { byCursor, usePages } from '../ui/pages.ts';
import { Id, Page, Time } from '../ui/parts.tsx';
import { save } from './csv.ts';

interface ReceiptPage {
  readonly receipts: readonly Receipt[];
  readonly pending: number;
  readonly next_cursor: string | null;
}

export default function Files() {
  const query = usePages<ReceiptPage>('/receipts?limit=50', byCursor);
  const pending = query.data?.pages[0]?.pending ?? 0;
  return (
    <Page title={t('files.title')} lead={t('files.lead')}>
      {pending > 0 && <Alert color="blue">{t('files.pending', { count: pending })}</Alert>}
      <List
        label={t('files.title')}
        query={query}
        rowsOf={({ receipts }) => receipts}
        keyOf={({ jws }) => jws}
        columns={[
          { name: t('files.kind'), cell: ({ statement }) => textOf('kind', statement.kind) },
          {
            name: t('jobs.id'),
            cell: ({ statement }) => <Id>{statement.job_id ?? statement.object_key}</Id>,
          },
          {
            name: t('files.size'),
            end: true,
            cell: ({ statement }) => <span className="number">{bytes(statement.size_bytes)}</span>,
          },
          { name: t('files.deleted'), cell: ({ statement }) => <Time at={statement.deleted_at} /> },
          { name: t('files.by'), cell: ({ statement }) => textOf('by', statement.requested_by) },
          {
            name: t('files.receipt'),
            end: true,
            cell: ({ statement, jws }) => (
              <ActionIcon
                variant="default"
                aria-label={t('files.download', { key: statement.object_key })}
                onClick={() =>
                  save(`receipt-${statement.object_key.replaceAll('/', '-')}.jws`, jws, 'application/jose')
                }
              >
                <IconDownload size={16} aria-hidden />
              </ActionIcon>
            ),
          },
        ]}
        empty={{ title: t('files.empty'), hint: t('files.emptyHint') }}
      />
    </Page>
  );
}
