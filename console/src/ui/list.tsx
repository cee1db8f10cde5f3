import { Button, Center } from '@mantine/core';
import type { UseInfiniteQueryResult } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { t } from '../text/text.ts';
import { type Column, DataTable } from './parts.tsx';
import { Empty, type EmptyProps, Failure, Rows } from './states.tsx';

interface ListProps<Answer, Row> {
  readonly label: string;
  readonly query: UseInfiniteQueryResult<{ pages: Answer[] }>;
  readonly rowsOf: (answer: Answer) => readonly Row[];
  readonly keyOf: (row: Row) => string;
  readonly columns: readonly Column<Row>[];
  readonly empty: EmptyProps;
  readonly foot?: ReactNode;
}

/** A list of the API in a card, with its empty, loading and error states, page after page. */
export function List<Answer, Row>(props: ListProps<Answer, Row>) {
  const { label, query, rowsOf, keyOf, columns, empty, foot } = props;
  const { data } = query;
  if (!data) {
    if (query.isError) return <Failure error={query.error} retry={() => void query.refetch()} />;
    return (
      <div className="card">
        <Rows />
      </div>
    );
  }
  const rows = data.pages.flatMap((page) => [...rowsOf(page)]);
  return (
    <div className="card">
      {rows.length === 0 ? (
        <Empty {...empty} />
      ) : (
        <DataTable label={label} rows={rows} keyOf={keyOf} columns={columns} />
      )}
      {query.isFetchNextPageError && <Failure error={query.error} retry={() => void query.fetchNextPage()} />}
      {query.hasNextPage && (
        <Center p="sm">
          <Button
            variant="default"
            size="xs"
            loading={query.isFetchingNextPage}
            onClick={() => void query.fetchNextPage()}
          >
            {t('app.more')}
          </Button>
        </Center>
      )}
      {foot}
    </div>
  );
}
