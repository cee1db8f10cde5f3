import { Alert, Anchor, Button, Group, List, Progress, SimpleGrid, Stack, Text, Title } from '@mantine/core';
import { Link } from 'wouter';
import type { Details, Job } from '../api/types.ts';
import { t, textOf, usd } from '../text/text.ts';
import { IconDownload } from '../ui/icons.ts';
import { useRead } from '../ui/pages.ts';
import { Confirm, Copy, Id, Page, Status, Time } from '../ui/parts.tsx';
import { Loaded } from '../ui/states.tsx';
import { useChange } from '../ui/use-change.tsx';
import { useJobEvents } from './job-events.ts';

const isOpen = ({ status }: Job) => status === 'queued' || status === 'processing';

export default function JobPage({ params }: { readonly params: { readonly id: string } }) {
  const path = `/jobs/${encodeURIComponent(params.id)}`;
  const query = useRead<Job>(path, (job) => (job && isOpen(job) ? 10_000 : undefined));
  const cancel = useChange();
  const job = query.data;
  return (
    <Page
      title={t('job.title')}
      back={{ to: '/jobs', label: t('jobs.title') }}
      actions={
        job &&
        isOpen(job) && (
          <Confirm
            size="sm"
            label={t('job.cancel')}
            title={t('job.cancelTitle')}
            text={t('job.cancelText')}
            busy={cancel.isPending}
            onConfirm={() => cancel.mutateAsync({ path: `${path}/cancel`, done: t('job.cancelled') })}
          />
        )
      }
    >
      <Loaded query={query}>{(found) => <Body job={found} path={path} />}</Loaded>
    </Page>
  );
}

function Body({ job, path }: { readonly job: Job; readonly path: string }) {
  return (
    <Stack gap="md">
      <Group gap="sm">
        <Status of={job.status} />
        <Id>{job.id}</Id>
        <Copy value={job.id} />
      </Group>
      {isOpen(job) && <Live path={path} />}
      {job.error && (
        <Alert color="red" title={t('job.failed')}>
          <Stack gap={4}>
            <Text size="sm">{job.error.message}</Text>
            <Text size="sm">{textOf('failure', job.error.code)}</Text>
            {job.charged_usd === 0 && <Text size="sm">{t('job.free')}</Text>}
          </Stack>
        </Alert>
      )}
      <SimpleGrid cols={{ base: 1, md: 2 }} spacing="md">
        <Output job={job} />
        <Facts job={job} />
      </SimpleGrid>
      {job.details && <Found details={job.details} />}
      <Anchor component={Link} href={`/webhooks/deliveries?job_id=${job.id}`} size="sm">
        {t('job.deliveries')}
      </Anchor>
    </Stack>
  );
}

/** How far a job is, as the stream of its events tells. */
function Live({ path }: { readonly path: string }) {
  const { progress, queue } = useJobEvents(path);
  const percent = Math.round((progress?.progress ?? 0) * 100);
  const parts = progress
    ? [
        t('job.progress', { percent }),
        ...(progress.eta_seconds === null
          ? []
          : [t('job.eta', { time: `${Math.ceil(progress.eta_seconds)} s` })]),
        ...(progress.attempt > 1 ? [t('job.attempt', { attempt: progress.attempt })] : []),
      ]
    : [t('job.waiting'), ...(queue?.position ? [t('job.place', { position: queue.position })] : [])];
  return (
    <div className="card card-padded">
      <Text size="sm" mb={8} aria-live="polite">
        {parts.join(', ')}
      </Text>
      <Progress value={progress ? percent : 100} animated={!progress} aria-label={t('job.stages')} />
    </div>
  );
}

function Output({ job }: { readonly job: Job }) {
  if (job.status !== 'succeeded') return null;
  return (
    <section className="card card-padded">
      <Stack gap="sm" align="flex-start">
        <Title order={2}>{t('jobs.preview')}</Title>
        {job.preview_url && <img className="preview" src={job.preview_url} alt={t('jobs.preview')} />}
        {job.output_url ? (
          <Button
            component="a"
            href={job.output_url}
            download
            size="xs"
            leftSection={<IconDownload size={14} aria-hidden />}
          >
            {t('job.output')}
          </Button>
        ) : (
          <Text size="sm">{t('job.noOutput')}</Text>
        )}
        {job.expires_at && (
          <Text size="xs" c="dimmed">
            {t('job.expires')} <Time at={job.expires_at} />
          </Text>
        )}
      </Stack>
    </section>
  );
}

function Facts({ job }: { readonly job: Job }) {
  const metadata = Object.entries(job.metadata ?? {});
  const facts: [string, string][] = [
    [t('jobs.cost'), job.charged_usd === null ? t('job.pending') : usd(job.charged_usd)],
    ...metadata,
  ];
  return (
    <section className="card card-padded">
      <Title order={2} mb="sm">
        {t('job.facts')}
      </Title>
      <Pairs pairs={facts} />
    </section>
  );
}

function Pairs({ pairs }: { readonly pairs: readonly [string, string][] }) {
  return (
    <dl className="pairs">
      {pairs.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function Found({ details }: { readonly details: Details }) {
  const { faces, hints, models = [], engine_options: options = {} } = details;
  const pairs: [string, string][] = [
    ...(faces
      ? ([
          [t('job.facesFound'), String(faces.found)],
          [t('job.facesChanged'), String(faces.changed)],
        ] as [string, string][])
      : []),
    ...models.map((model): [string, string] => [t('job.models'), `${model.name} (${model.licence})`]),
    ...Object.entries(options),
  ];
  return (
    <section className="card card-padded">
      <Stack gap="sm">
        <Title order={2}>{t('job.details')}</Title>
        <Pairs pairs={pairs} />
        <List size="sm" spacing={4}>
          {faces?.left.map(({ reason, count }) => (
            <List.Item key={reason}>
              {t('job.facesLeft', { reason: reason.replaceAll('_', ' '), count })}
            </List.Item>
          ))}
          {hints.map(({ code, message, input }) => (
            <List.Item key={`${code} ${input}`}>{message}</List.Item>
          ))}
        </List>
      </Stack>
    </section>
  );
}
