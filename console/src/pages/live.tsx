import { Progress, Stack, Text } from '@mantine/core';
import type { LiveSession } from '../api/types.ts';
import { duration, t, textOf, usd } from '../text/text.ts';
import { List } from '../ui/list.tsx';
import { usePages } from '../ui/pages.ts';
import { Confirm, Id, Page, Status, Time } from '../ui/parts.tsx';
import { useChange } from '../ui/use-change.tsx';

const PAGE = 50;

export default function Live() {
  const query = usePages<LiveSession[]>(
    `/sessions?limit=${PAGE}`,
    (rows) => (rows.length === PAGE ? `before=${rows.at(-1)?.session_id}` : undefined),
    5_000,
  );
  const end = useChange();
  return (
    <Page title={t('live.title')}>
      <List
        label={t('live.title')}
        query={query}
        rowsOf={(rows) => rows}
        keyOf={({ session_id }) => session_id}
        columns={[
          {
            name: t('live.id'),
            cell: ({ feature, session_id }) => (
              <div>
                <Text size="sm" fw={600}>
                  {textOf('feature', feature)}
                </Text>
                <Id>{session_id}</Id>
              </div>
            ),
          },
          { name: t('jobs.status'), cell: ({ status }) => <Status of={status} /> },
          { name: t('live.opened'), cell: ({ created_at }) => <Time at={created_at} /> },
          { name: t('live.streamed'), cell: (session) => <Meter of={session} /> },
          {
            name: t('live.cost'),
            cell: ({ charged_usd, max_cost_usd }) => (
              <span className="number">
                {charged_usd === null ? t('live.reserved', { amount: usd(max_cost_usd) }) : usd(charged_usd)}
              </span>
            ),
          },
          {
            name: '',
            end: true,
            cell: ({ session_id, ended_at, reason }) =>
              ended_at === null ? (
                <Confirm
                  label={t('live.end')}
                  name={t('live.endOne', { id: session_id })}
                  title={t('live.endTitle')}
                  text={t('live.endText')}
                  busy={end.isPending}
                  onConfirm={() =>
                    end.mutateAsync({
                      path: `/sessions/${session_id}`,
                      method: 'DELETE',
                      done: t('live.ended'),
                    })
                  }
                />
              ) : (
                <Text size="xs" c="dimmed">
                  {reason === null ? '' : textOf('reason', reason)}
                </Text>
              ),
          },
        ]}
        empty={{ title: t('live.empty'), hint: t('live.emptyHint') }}
      />
    </Page>
  );
}

/** What was streamed, against the longest time. */
function Meter({ of }: { readonly of: LiveSession }) {
  const { streamed_sec, max_duration_sec, ended_at } = of;
  const most = t('live.most', { time: duration(max_duration_sec) });
  return (
    <Stack gap={2} miw={120}>
      <Text size="sm" className="number">
        {duration(streamed_sec)}
      </Text>
      {ended_at === null && (
        <>
          <Progress
            size="xs"
            value={(100 * streamed_sec) / max_duration_sec}
            aria-label={t('live.streamed')}
          />
          <Text size="xs" c="dimmed">
            {most}
          </Text>
        </>
      )}
    </Stack>
  );
}
