import { Anchor } from '@mantine/core';
import { Link } from 'wouter';
import type { ListedJob } from '../api/types.ts';
import { t, textOf, usd } from '../text/text.ts';
import { type Column, DataTable, Status, Time } from '../ui/parts.tsx';

/** Returns the columns of jobs. They are made anew, since a language may be loaded later than this file. */
export const jobColumns = (): readonly Column<ListedJob>[] => [
  {
    name: t('jobs.id'),
    cell: ({ id, feature }) => (
      <Anchor component={Link} href={`/jobs/${id}`} size="sm" fw={600} title={id}>
        {textOf('feature', feature)} · {id.slice(-6)}
      </Anchor>
    ),
  },
  {
    name: t('jobs.preview'),
    cell: ({ preview_url }) =>
      preview_url ? (
        <img className="thumb" src={preview_url} alt="" loading="lazy" />
      ) : (
        <span className="thumb" />
      ),
  },
  { name: t('jobs.status'), cell: ({ status }) => <Status of={status} /> },
  { name: t('jobs.submitted'), cell: ({ created_at }) => <Time at={created_at} /> },
  {
    name: t('jobs.cost'),
    end: true,
    cell: ({ charged_usd }) => (
      <span className="number">{charged_usd === null ? '–' : usd(charged_usd)}</span>
    ),
  },
];

export function JobTable({ jobs, label }: { readonly jobs: readonly ListedJob[]; readonly label: string }) {
  return <DataTable label={label} rows={jobs} keyOf={({ id }) => id} columns={jobColumns()} />;
}
