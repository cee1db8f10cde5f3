import { Button, Group, Stack, Text, Title } from '@mantine/core';
import { useState } from 'react';
import type { Secret } from '../api/types.ts';
import { t } from '../text/text.ts';
import { useRead } from '../ui/pages.ts';
import { Confirm, Copy } from '../ui/parts.tsx';
import { Loaded } from '../ui/states.tsx';
import { useChange } from '../ui/use-change.tsx';

export function SigningSecret() {
  const [revealed, setRevealed] = useState(false);
  return (
    <section className="card card-padded">
      <Stack align="flex-start">
        <Text size="sm">{t('secret.lead')}</Text>
        {/* It is asked for only now: a page on a screen shows no secret that nobody wants to see. */}
        {revealed && <Revealed />}
        <Button variant="default" size="sm" onClick={() => setRevealed(!revealed)} aria-expanded={revealed}>
          {t(revealed ? 'secret.hide' : 'secret.reveal')}
        </Button>
      </Stack>
    </section>
  );
}

function Revealed() {
  const query = useRead<Secret>('/webhook-secret');
  const change = useChange();
  return (
    <Loaded query={query}>
      {({ secret, next }) => (
        <Stack w="100%" gap="lg">
          <OneSecret name={t('secret.current')} value={secret} />
          {next !== null && <OneSecret name={t('secret.next')} value={next} />}
          <div>
            <Title order={2}>{t('secret.rotate')}</Title>
            <Text size="sm" mb="sm">
              {t(next === null ? 'secret.step1Text' : 'secret.step2Text')}
            </Text>
            {next === null ? (
              <Button
                size="sm"
                loading={change.isPending}
                onClick={() => change.mutate({ path: '/webhook-secret/begin', done: t('secret.begun') })}
              >
                {t('secret.step1')}
              </Button>
            ) : (
              <Confirm
                size="sm"
                label={t('secret.step2')}
                title={t('secret.finishTitle')}
                text={t('secret.finishText')}
                busy={change.isPending}
                onConfirm={() =>
                  change.mutateAsync({ path: '/webhook-secret/finish', done: t('secret.finished') })
                }
              />
            )}
          </div>
        </Stack>
      )}
    </Loaded>
  );
}

function OneSecret({ name, value }: { readonly name: string; readonly value: string }) {
  return (
    <Stack gap={6}>
      <Text size="sm" fw={600}>
        {name}
      </Text>
      <Group gap="sm">
        <div className="secret mono">{value}</div>
        <Copy value={value} />
      </Group>
    </Stack>
  );
}
