import { Button, Group, NativeSelect, SimpleGrid, Text, TextInput, Title } from '@mantine/core';
import { useContext, useState } from 'react';
import { call, withQuery } from '../api/client.ts';
import type { UsageEntry, UsageSummary } from '../api/types.ts';
import { count, t, textOf, usd } from '../text/text.ts';
import { IconDownload } from '../ui/icons.ts';
import { List } from '../ui/list.tsx';
import { usePages, useRead } from '../ui/pages.ts';
import { type Column, DataTable, Id, Page, Status, Time } from '../ui/parts.tsx';
import { explain, Loaded, Rows } from '../ui/states.tsx';
import { Notices } from '../ui/use-change.tsx';
import { csvOf, save } from './csv.ts';

const PAGE = 100;
const CSV_PAGE = 500;
/** Pages of a CSV. More would use up the limit of the key. */
const CSV_PAGES = 40;
const DAY_MS = 86_400_000;
const dayOf = (ms: number) => new Date(ms).toISOString().slice(0, 10);
/** Returns the first moment after a day. */
const after = (day: string) => (day ? dayOf(Date.parse(day) + DAY_MS) : '');

/** Before the last call of a page; no two calls share their time. */
const nextPage = (entries: readonly UsageEntry[], size: number) =>
  entries.length === size ? entries.at(-1)?.created_at : undefined;

export default function Usage() {
  const [from, setFrom] = useState(() => dayOf(Date.now() - 29 * DAY_MS));
  const [to, setTo] = useState('');
  const [feature, setFeature] = useState('');
  const [status, setStatus] = useState('');
  const [busy, setBusy] = useState(false);
  const notify = useContext(Notices);
  const range = { from, to: after(to) };
  const summary = useRead<UsageSummary>(withQuery('/usage/summary', range));
  const list = usePages<UsageEntry[]>(withQuery('/usage', { limit: PAGE, from }), (entries) => {
    const before = nextPage(entries, PAGE);
    return before && `to=${encodeURIComponent(before)}`;
  });
  const wanted = (entry: UsageEntry) =>
    (feature === '' || entry.feature === feature) &&
    (status === '' || entry.status === status) &&
    (range.to === '' || entry.created_at < range.to);

  async function download() {
    setBusy(true);
    try {
      const rows: UsageEntry[] = [];
      let before: string | undefined = range.to;
      for (let page = 0; page < CSV_PAGES && before !== undefined; page++) {
        const entries: UsageEntry[] = await call(withQuery('/usage', { limit: CSV_PAGE, from, to: before }));
        rows.push(...entries);
        before = nextPage(entries, CSV_PAGE);
      }
      if (before) notify({ text: t('usage.csvCut', { count: count(rows.length) }), failed: true });
      save(`usage-${from || 'all'}.csv`, csvOf(rows.filter(wanted)));
    } catch (error) {
      notify({ title: t('error.action'), text: explain(error), failed: true });
    } finally {
      setBusy(false);
    }
  }

  return (
    <Page
      title={t('usage.title')}
      lead={t('usage.utc')}
      actions={
        <Button
          variant="default"
          size="sm"
          loading={busy}
          leftSection={<IconDownload size={16} aria-hidden />}
          onClick={() => void download()}
        >
          {t('usage.csv')}
        </Button>
      }
    >
      <Group gap="sm" align="flex-end">
        <TextInput
          type="date"
          label={t('usage.from')}
          value={from}
          onChange={(e) => setFrom(e.currentTarget.value)}
        />
        <TextInput
          type="date"
          label={t('usage.to')}
          value={to}
          min={from}
          onChange={(e) => setTo(e.currentTarget.value)}
        />
        <NativeSelect
          label={t('usage.feature')}
          value={feature}
          onChange={(e) => setFeature(e.currentTarget.value)}
          data={[
            { value: '', label: t('app.all') },
            ...FEATURES.map((value) => ({ value, label: textOf('feature', value) })),
          ]}
        />
        <NativeSelect
          label={t('usage.status')}
          value={status}
          onChange={(e) => setStatus(e.currentTarget.value)}
          data={[
            { value: '', label: t('app.all') },
            ...STATUSES.map((value) => ({ value, label: textOf('status', value) })),
          ]}
        />
      </Group>
      <Loaded query={summary} loading={<Rows rows={3} />}>
        {(sums) => <Sums of={sums} />}
      </Loaded>
      <List
        label={t('usage.title')}
        query={list}
        rowsOf={(entries) => entries.filter(wanted)}
        keyOf={({ id }) => id}
        columns={columns()}
        empty={{ title: t('usage.empty'), hint: t('usage.emptyHint') }}
      />
    </Page>
  );
}

const FEATURES = [
  'photo_swap',
  'video_swap',
  'identity_swap',
  'motion_transfer',
  'avatar',
  'lip_sync',
  'live_swap_pro',
  'voice_swap',
];
const STATUSES = ['queued', 'processing', 'succeeded', 'failed'];

const columns = (): readonly Column<UsageEntry>[] => [
  { name: t('usage.feature'), cell: ({ feature }) => textOf('feature', feature) },
  { name: t('usage.call'), cell: ({ id }) => <Id>{id}</Id> },
  { name: t('usage.status'), cell: ({ status }) => <Status of={status} /> },
  { name: t('usage.reason'), cell: ({ reason }) => (reason === null ? '' : textOf('reason', reason)) },
  { name: t('usage.when'), cell: ({ created_at }) => <Time at={created_at} /> },
  {
    name: t('usage.cost'),
    end: true,
    cell: ({ charged_usd }) => <span className="number">{usd(charged_usd)}</span>,
  },
];

function Sums({ of }: { readonly of: UsageSummary }) {
  const figures: [string, string][] = [
    [t('usage.spent'), usd(of.total_spent_usd)],
    [t('usage.calls'), count(of.total_calls)],
    [t('usage.succeeded'), count(of.succeeded)],
    [t('usage.failed'), count(of.failed)],
  ];
  return (
    <>
      <SimpleGrid cols={{ base: 2, md: 4 }} spacing="md">
        {figures.map(([name, value]) => (
          <div key={name} className="card card-padded">
            <Text size="sm" fw={600} c="dimmed">
              {name}
            </Text>
            <div className="figure">{value}</div>
          </div>
        ))}
      </SimpleGrid>
      {of.per_feature.length > 0 && (
        <section className="card">
          <Title order={2} px="md" pt="md" pb="xs">
            {t('usage.perFeature')}
          </Title>
          <DataTable
            label={t('usage.perFeature')}
            rows={of.per_feature}
            keyOf={({ feature }) => feature}
            columns={[
              { name: t('usage.feature'), cell: ({ feature }) => textOf('feature', feature) },
              { name: t('usage.calls'), end: true, cell: ({ calls }) => count(calls) },
              { name: t('usage.spent'), end: true, cell: ({ spend_usd }) => usd(spend_usd) },
            ]}
          />
        </section>
      )}
    </>
  );
}
