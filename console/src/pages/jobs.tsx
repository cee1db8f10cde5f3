import { Button, Group, NativeSelect } from '@mantine/core';
import { useState } from 'react';
import { withQuery } from '../api/client.ts';
import type { JobPage } from '../api/types.ts';
import { t, textOf } from '../text/text.ts';
import { List } from '../ui/list.tsx';
import { byCursor, usePages } from '../ui/pages.ts';
import { Page } from '../ui/parts.tsx';
import { jobColumns } from './job-table.tsx';

const STATUSES = ['queued', 'processing', 'succeeded', 'failed'];
const CAPABILITIES: Readonly<Record<string, string>> = {
  'character-swap': 'identity_swap',
  'face-swap': 'video_swap',
  'face-swap-image': 'photo_swap',
  'motion-control': 'motion_transfer',
  avatar: 'avatar',
  'lip-sync': 'lip_sync',
};

export default function Jobs() {
  const [status, setStatus] = useState('');
  const [capability, setCapability] = useState('');
  const query = usePages<JobPage>(withQuery('/jobs', { limit: 50, status, capability }), byCursor, 10_000);
  const filtered = status !== '' || capability !== '';
  return (
    <Page title={t('jobs.title')}>
      <Group gap="sm" align="flex-end">
        <NativeSelect
          label={t('jobs.status')}
          value={status}
          onChange={(event) => setStatus(event.currentTarget.value)}
          data={[
            { value: '', label: t('app.all') },
            ...STATUSES.map((value) => ({ value, label: textOf('status', value) })),
          ]}
        />
        <NativeSelect
          label={t('jobs.capability')}
          value={capability}
          onChange={(event) => setCapability(event.currentTarget.value)}
          data={[
            { value: '', label: t('app.all') },
            ...Object.entries(CAPABILITIES).map(([value, feature]) => ({
              value,
              label: textOf('feature', feature),
            })),
          ]}
        />
      </Group>
      <List
        label={t('jobs.title')}
        query={query}
        rowsOf={({ jobs }) => jobs}
        keyOf={({ id }) => id}
        columns={jobColumns()}
        empty={{
          title: t('jobs.empty'),
          hint: t(filtered ? 'jobs.emptyFilter' : 'jobs.emptyHint'),
          children: filtered ? undefined : (
            <Button component="a" href="/api/v1/docs" variant="default" size="xs" mt="sm">
              {t('jobs.docs')}
            </Button>
          ),
        }}
      />
    </Page>
  );
}
