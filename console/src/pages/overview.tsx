import {
  Alert,
  Anchor,
  Button,
  Group,
  SegmentedControl,
  SimpleGrid,
  Skeleton,
  Stack,
  Text,
  Title,
} from '@mantine/core';
import { lazy, Suspense, useState } from 'react';
import { Link } from 'wouter';
import type { Balance, JobPage, SpendDay } from '../api/types.ts';
import { t, usd } from '../text/text.ts';
import { useRead } from '../ui/pages.ts';
import { Page } from '../ui/parts.tsx';
import { Empty, Failure, Loaded, Rows } from '../ui/states.tsx';
import { JobTable } from './job-table.tsx';

const SpendChart = lazy(() => import('./spend-chart.tsx'));

export function Overview() {
  const balance = useRead<Balance>('/balance', 30_000);
  const jobs = useRead<JobPage>('/jobs?limit=5', 15_000);
  return (
    <Page title={t('overview.title')}>
      {balance.isError && !balance.data ? (
        <Failure error={balance.error} retry={() => void balance.refetch()} />
      ) : (
        <Figures balance={balance.data} />
      )}
      <Spend />
      <section className="card" aria-labelledby="recent">
        <Group justify="space-between" px="md" pt="md" pb="xs">
          <Title order={2} id="recent">
            {t('overview.recent')}
          </Title>
          <Anchor component={Link} href="/jobs" size="sm">
            {t('overview.allJobs')}
          </Anchor>
        </Group>
        <Loaded query={jobs} loading={<Rows rows={5} />}>
          {({ jobs: rows }) =>
            rows.length ? <JobTable jobs={rows} label={t('overview.recent')} /> : <NoJobs />
          }
        </Loaded>
      </section>
    </Page>
  );
}

function NoJobs() {
  return (
    <Empty title={t('jobs.empty')} hint={t('jobs.emptyHint')}>
      <Button component="a" href="/api/v1/docs" variant="default" size="xs" mt="sm">
        {t('jobs.docs')}
      </Button>
    </Empty>
  );
}

function Figures({ balance }: { readonly balance: Balance | undefined }) {
  const figures = [
    { name: t('overview.available'), hint: t('overview.availableHint'), value: balance?.available_usd },
    { name: t('overview.balance'), hint: t('overview.balanceHint'), value: balance?.balance_usd },
    { name: t('overview.held'), hint: t('overview.heldHint'), value: balance?.held_usd },
    { name: t('overview.reserved'), hint: t('overview.reservedHint'), value: balance?.reserved_usd },
  ];
  return (
    <Stack gap="sm">
      <SimpleGrid cols={{ base: 1, xs: 2, md: 4 }} spacing="md">
        {figures.map(({ name, hint, value }) => (
          <div key={name} className="card card-padded">
            <Text size="sm" fw={600} c="dimmed">
              {name}
            </Text>
            <div className="figure">{value === undefined ? <Skeleton h={32} w={120} /> : usd(value)}</div>
            <Text size="xs" c="dimmed">
              {hint}
            </Text>
          </div>
        ))}
      </SimpleGrid>
      {balance && balance.available_usd <= 0 && <Alert color="yellow">{t('overview.low')}</Alert>}
    </Stack>
  );
}

function Spend() {
  const [days, setDays] = useState('30');
  const spend = useRead<{ days: SpendDay[] }>(`/usage/days?days=${days}`);
  const total = spend.data?.days.reduce((sum, { spent_usd }) => sum + spent_usd, 0);
  return (
    <section className="card card-padded" aria-labelledby="spend">
      <Group justify="space-between" mb="sm" gap="xs">
        <div>
          <Title order={2} id="spend">
            {t('overview.spend')}
          </Title>
          <Text size="sm" c="dimmed" mih={22}>
            {total === undefined ? '' : t('overview.spendHint', { days, total: usd(total) })}
          </Text>
        </div>
        <SegmentedControl
          size="xs"
          value={days}
          onChange={setDays}
          aria-label={t('overview.period')}
          data={[
            { value: '30', label: t('overview.days30') },
            { value: '90', label: t('overview.days90') },
            { value: '366', label: t('overview.days366') },
          ]}
        />
      </Group>
      <div className="chart">
        <Loaded query={spend} loading={<Skeleton h="100%" />}>
          {({ days: rows }) =>
            rows.some(({ spent_usd }) => spent_usd > 0) ? (
              <Suspense fallback={<Skeleton h="100%" />}>
                <SpendChart days={rows} />
              </Suspense>
            ) : (
              <Empty title={t('overview.noSpend')} hint="" />
            )
          }
        </Loaded>
      </div>
    </section>
  );
}
