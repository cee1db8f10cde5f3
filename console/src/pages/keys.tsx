import {
  Badge,
  Button,
  Checkbox,
  Group,
  Modal,
  NumberInput,
  Stack,
  Text,
  Textarea,
  TextInput,
} from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import type { Cap, ConsoleSession, Key, MadeKey } from '../api/types.ts';
import { type TextKey, t, usd } from '../text/text.ts';
import { useRead } from '../ui/pages.ts';
import { type Column, Confirm, Copy, DataTable, Page, Time } from '../ui/parts.tsx';
import { explain, Loaded, Rows } from '../ui/states.tsx';
import { useChange } from '../ui/use-change.tsx';

const SCOPES = ['submit', 'read', 'sessions', 'account'] as const;

export default function Keys() {
  const keys = useRead<{ keys: Key[] }>('/keys');
  const session = useQuery<ConsoleSession>({ queryKey: ['session'], enabled: false });
  const revoke = useChange();
  const [adding, { open, close }] = useDisclosure();
  const [made, setMade] = useState<MadeKey>();
  const nameOf = ({ name, prefix }: Key) => name ?? prefix ?? t('keys.unnamed');

  const columns: Column<Key>[] = [
    {
      name: t('keys.name'),
      cell: (key) => (
        <div>
          <Group gap={6}>
            <Text size="sm" fw={600}>
              {key.name ?? t('keys.unnamed')}
            </Text>
            {key.key_id === session.data?.key_id && (
              <Badge size="xs" variant="light" tt="none" className="status-blue">
                {t('keys.yours')}
              </Badge>
            )}
          </Group>
          {key.prefix && <span className="mono">{key.prefix}…</span>}
        </div>
      ),
    },
    { name: t('keys.scopes'), cell: ({ scopes }) => <Text size="sm">{scopes.join(', ')}</Text> },
    { name: t('keys.caps'), cell: ({ caps }) => <Caps caps={caps} /> },
    {
      name: t('keys.used'),
      cell: ({ last_used_at }) => (last_used_at ? <Time at={last_used_at} /> : t('keys.notUsed')),
    },
    {
      name: t('keys.expires'),
      cell: ({ expires_at }) => (expires_at ? <Time at={expires_at} /> : t('keys.never')),
    },
    {
      name: '',
      end: true,
      cell: (key) => (
        <Confirm
          label={t('keys.revoke')}
          name={t('keys.revokeOne', { name: nameOf(key) })}
          title={t('keys.revokeTitle', { name: nameOf(key) })}
          text={t('keys.revokeText')}
          busy={revoke.isPending}
          onConfirm={() =>
            revoke.mutateAsync({ path: `/keys/${key.key_id}`, method: 'DELETE', done: t('keys.revoked') })
          }
        />
      ),
    },
  ];

  return (
    <Page title={t('keys.title')} actions={<Button onClick={open}>{t('keys.add')}</Button>}>
      <div className="card">
        <Loaded query={keys} loading={<Rows />}>
          {({ keys: rows }) => (
            <DataTable label={t('keys.title')} rows={rows} keyOf={({ key_id }) => key_id} columns={columns} />
          )}
        </Loaded>
      </div>
      <Modal
        opened={adding}
        onClose={close}
        title={t('keys.add')}
        lockScroll={false}
        closeButtonProps={{ 'aria-label': t('app.close') }}
      >
        <NewKey
          onMade={(key) => {
            close();
            setMade(key);
          }}
        />
      </Modal>
      <Modal
        opened={made !== undefined}
        onClose={() => setMade(undefined)}
        title={t('keys.made')}
        lockScroll={false}
        closeOnClickOutside={false}
        withCloseButton={false}
      >
        <Stack>
          <Text size="sm">{t('keys.madeText')}</Text>
          <div className="secret mono">{made?.api_key}</div>
          <Group justify="space-between">
            <Copy value={made?.api_key ?? ''} />
            <Button onClick={() => setMade(undefined)}>{t('keys.done')}</Button>
          </Group>
        </Stack>
      </Modal>
    </Page>
  );
}

function Caps({ caps }: { readonly caps: readonly Cap[] }) {
  const set = caps.filter(({ cap_usd }) => cap_usd !== null);
  if (set.length === 0) return <Text size="sm">{t('keys.noCap')}</Text>;
  return (
    <div>
      {set.map(({ period, cap_usd, spent_usd, held_usd }) => (
        <Text key={period} size="sm" className="number">
          {t(period === 'day' ? 'keys.capDayShort' : 'keys.capMonthShort')}:{' '}
          {t('keys.spent', { spent: usd(spent_usd + held_usd), cap: usd(cap_usd ?? 0) })}
        </Text>
      ))}
    </div>
  );
}

function NewKey({ onMade }: { readonly onMade: (key: MadeKey) => void }) {
  const make = useChange<MadeKey>();
  const [name, setName] = useState('');
  const [scopes, setScopes] = useState<string[]>(['submit', 'read']);
  const [expires, setExpires] = useState('');
  const [capDay, setCapDay] = useState<string | number>('');
  const [capMonth, setCapMonth] = useState<string | number>('');
  const [addresses, setAddresses] = useState('');

  function submit(event: FormEvent) {
    event.preventDefault();
    const networks = addresses.split(/\s+/).filter((text) => text !== '');
    const body = {
      ...(name.trim() && { name: name.trim() }),
      scopes,
      ...(expires && { expires_at: expires }),
      ...(capDay !== '' && { cap_day_usd: Number(capDay) }),
      ...(capMonth !== '' && { cap_month_usd: Number(capMonth) }),
      ...(networks.length > 0 && { allowed_addresses: networks }),
    };
    make.mutate({ path: '/keys', body }, { onSuccess: onMade });
  }

  return (
    <form onSubmit={submit}>
      <Stack gap="sm">
        <TextInput
          label={t('keys.name')}
          description={t('keys.nameHint')}
          maxLength={100}
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
          data-autofocus
        />
        <Checkbox.Group label={t('keys.scopes')} value={scopes} onChange={setScopes}>
          <Stack gap={8} mt={6}>
            {SCOPES.map((scope) => (
              <Checkbox key={scope} value={scope} label={t(`scope.${scope}` as TextKey)} />
            ))}
          </Stack>
        </Checkbox.Group>
        <TextInput
          type="date"
          label={t('keys.expires')}
          description={t('keys.expiresHint')}
          value={expires}
          onChange={(event) => setExpires(event.currentTarget.value)}
        />
        <Group grow>
          <NumberInput
            label={t('keys.capDay')}
            description={t('keys.capHint')}
            min={0}
            value={capDay}
            onChange={setCapDay}
            hideControls
          />
          <NumberInput
            label={t('keys.capMonth')}
            description={t('keys.capHint')}
            min={0}
            value={capMonth}
            onChange={setCapMonth}
            hideControls
          />
        </Group>
        <Textarea
          label={t('keys.addresses')}
          description={t('keys.addressesHint')}
          rows={2}
          value={addresses}
          onChange={(event) => setAddresses(event.currentTarget.value)}
        />
        {make.isError && (
          <Text size="sm" className="status-red" role="alert">
            {explain(make.error)}
          </Text>
        )}
        <Button type="submit" loading={make.isPending} disabled={scopes.length === 0}>
          {t('keys.make')}
        </Button>
      </Stack>
    </form>
  );
}
