import { Alert, Button, Checkbox, Group, Modal, Stack, Text, TextInput } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { type FormEvent, useState } from 'react';
import type { Endpoint } from '../api/types.ts';
import { localTime, t } from '../text/text.ts';
import { useRead } from '../ui/pages.ts';
import { Confirm, Status } from '../ui/parts.tsx';
import { Empty, explain, Loaded } from '../ui/states.tsx';
import { useChange } from '../ui/use-change.tsx';

const EVENTS = ['job.succeeded', 'job.failed', 'batch.finished', 'balance.low', 'cap.reached_80'];

export function Endpoints() {
  const query = useRead<{ endpoints: Endpoint[] }>('/webhook-endpoints', 15_000);
  const [adding, { open, close }] = useDisclosure();
  return (
    <Stack>
      <Group justify="flex-end">
        <Button size="sm" onClick={open}>
          {t('webhooks.add')}
        </Button>
      </Group>
      <div className="card">
        <Loaded query={query}>
          {({ endpoints }) =>
            endpoints.length === 0 ? (
              <Empty title={t('webhooks.empty')} hint={t('webhooks.emptyHint')} />
            ) : (
              endpoints.map((endpoint) => <One key={endpoint.id} endpoint={endpoint} />)
            )
          }
        </Loaded>
      </div>
      <Modal
        opened={adding}
        onClose={close}
        title={t('webhooks.add')}
        lockScroll={false}
        closeButtonProps={{ 'aria-label': t('app.close') }}
      >
        <NewEndpoint onMade={close} />
      </Modal>
    </Stack>
  );
}

function One({ endpoint }: { readonly endpoint: Endpoint }) {
  const { id, url, description, events, enabled, disabled_by, failing_since } = endpoint;
  const change = useChange();
  const path = `/webhook-endpoints/${id}`;
  return (
    <div className="endpoint">
      <Group justify="space-between" gap="sm" align="flex-start">
        <div>
          <Group gap="xs">
            <span className="mono">{url}</span>
            <Status of={enabled ? 'enabled' : 'disabled'} />
          </Group>
          {description && <Text size="sm">{description}</Text>}
          <Text size="xs" c="dimmed">
            {events.join(', ')}
          </Text>
        </div>
        <Group gap="xs" role="group" aria-label={t('webhooks.actions', { name: url })}>
          {enabled && (
            <Button
              size="xs"
              variant="default"
              onClick={() => change.mutate({ path: `${path}/test`, done: t('webhooks.tested') })}
            >
              {t('webhooks.test')}
            </Button>
          )}
          <Button
            size="xs"
            variant="default"
            onClick={() => change.mutate({ path, method: 'PATCH', body: { enabled: !enabled } })}
          >
            {t(enabled ? 'webhooks.disable' : 'webhooks.enable')}
          </Button>
          <Confirm
            label={t('webhooks.delete')}
            title={t('webhooks.deleteTitle')}
            text={t('webhooks.deleteText')}
            busy={change.isPending}
            onConfirm={() => change.mutateAsync({ path, method: 'DELETE', done: t('webhooks.deleted') })}
          />
        </Group>
      </Group>
      {(disabled_by === 'failing' || failing_since) && (
        <Alert color="yellow" mt="sm">
          {disabled_by === 'failing'
            ? t('webhooks.disabledFailing')
            : t('webhooks.failing', { time: localTime(failing_since ?? '') })}
        </Alert>
      )}
    </div>
  );
}

function NewEndpoint({ onMade }: { readonly onMade: () => void }) {
  const make = useChange();
  const [url, setUrl] = useState('');
  const [description, setDescription] = useState('');
  const [events, setEvents] = useState<string[]>(['job.succeeded', 'job.failed']);
  function submit(event: FormEvent) {
    event.preventDefault();
    const body = { url: url.trim(), events, description: description.trim() };
    make.mutate({ path: '/webhook-endpoints', body, done: t('webhooks.added') }, { onSuccess: onMade });
  }
  return (
    <form onSubmit={submit}>
      <Stack gap="sm">
        <TextInput
          type="url"
          required
          label={t('webhooks.url')}
          description={t('webhooks.urlHint')}
          placeholder="https://example.com/hooks"
          value={url}
          onChange={(event) => setUrl(event.currentTarget.value)}
          error={make.isError ? explain(make.error) : undefined}
          data-autofocus
        />
        <TextInput
          label={t('webhooks.description')}
          value={description}
          onChange={(event) => setDescription(event.currentTarget.value)}
        />
        <Checkbox.Group label={t('webhooks.events')} value={events} onChange={setEvents}>
          <Stack gap={8} mt={6}>
            {EVENTS.map((event) => (
              <Checkbox key={event} value={event} label={event} />
            ))}
          </Stack>
        </Checkbox.Group>
        <Button type="submit" loading={make.isPending} disabled={events.length === 0}>
          {t('webhooks.save')}
        </Button>
      </Stack>
    </form>
  );
}
