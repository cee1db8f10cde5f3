import { Badge, Button, Group, Text } from '@mantine/core';
import type { ConsoleSession } from '../api/types.ts';
import { localTime, t } from '../text/text.ts';
import { useRead } from '../ui/pages.ts';
import { type Column, DataTable, Page, Time } from '../ui/parts.tsx';
import { Loaded } from '../ui/states.tsx';
import { useChange } from '../ui/use-change.tsx';

/** Returns the browser and the system of a User-Agent, as far as it says. */
function nameOf(agent: string | null): string {
  const browser = /(Firefox|Edg|OPR|Chrome|Version)\/(\d+)/.exec(agent ?? '');
  const system = /(Windows|Mac OS X|Android|iPhone|iPad|Linux)/.exec(agent ?? '')?.[1];
  if (!browser) return t('browsers.unknown');
  const names: Readonly<Record<string, string>> = { Edg: 'Edge', OPR: 'Opera', Version: 'Safari' };
  const [, found = '', version = ''] = /(Edg|OPR)\/(\d+)/.exec(agent ?? '') ?? browser;
  return [`${names[found] ?? found} ${version}`, system?.replace('Mac OS X', 'macOS')]
    .filter(Boolean)
    .join(', ');
}

export default function Browsers() {
  const query = useRead<{ sessions: ConsoleSession[] }>('/console/sessions');
  const end = useChange();
  const columns: Column<ConsoleSession>[] = [
    {
      name: t('browsers.browser'),
      cell: ({ browser, current }) => (
        <Group gap={6}>
          <Text size="sm" fw={600} title={browser ?? ''}>
            {nameOf(browser)}
          </Text>
          {current && (
            <Badge size="xs" variant="light" tt="none" className="status-blue">
              {t('browsers.current')}
            </Badge>
          )}
        </Group>
      ),
    },
    { name: t('browsers.address'), cell: ({ address }) => <span className="mono">{address ?? '–'}</span> },
    { name: t('browsers.opened'), cell: ({ created_at }) => <Time at={created_at} /> },
    { name: t('browsers.used'), cell: ({ last_used_at }) => <Time at={last_used_at} /> },
    { name: t('browsers.ends'), cell: ({ expires_at }) => <Time at={expires_at} /> },
    {
      name: '',
      end: true,
      cell: ({ session_id, browser, current, created_at }) =>
        !current && (
          <Button
            size="xs"
            variant="default"
            className="danger"
            aria-label={t('browsers.endOne', { browser: nameOf(browser), time: localTime(created_at) })}
            onClick={() =>
              end.mutate({
                path: `/console/sessions/${session_id}`,
                method: 'DELETE',
                done: t('browsers.ended'),
              })
            }
          >
            {t('browsers.end')}
          </Button>
        ),
    },
  ];
  return (
    <Page title={t('browsers.title')} lead={t('browsers.lead')}>
      <div className="card">
        <Loaded query={query}>
          {({ sessions }) => (
            <DataTable
              label={t('browsers.title')}
              rows={sessions}
              keyOf={({ session_id }) => session_id}
              columns={columns}
            />
          )}
        </Loaded>
      </div>
    </Page>
  );
}
