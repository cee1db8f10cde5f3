import { Alert, Button, Center, Group, Image, PasswordInput, Stack, Text, Title } from '@mantine/core';
import { type FormEvent, useEffect, useState } from 'react';
import { ApiError, call } from '../api/client.ts';
import type { ConsoleSession } from '../api/types.ts';
import { t } from '../text/text.ts';
import { explain } from '../ui/states.tsx';

export type SignInReason = 'ended' | 'out' | undefined;

interface SignInProps {
  readonly reason: SignInReason;
  readonly onSignedIn: (session: ConsoleSession) => void;
}

export function SignIn({ reason, onSignedIn }: SignInProps) {
  const [key, setKey] = useState('');
  const [fault, setFault] = useState<string>();
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    document.title = `${t('signIn.title')} · ${t('app.name')}`;
  }, []);

  async function signIn(event: FormEvent) {
    event.preventDefault();
    setBusy(true);
    setFault(undefined);
    try {
      onSignedIn(await call<ConsoleSession>('/console/sessions', { method: 'POST', apiKey: key.trim() }));
    } catch (error) {
      const code = error instanceof ApiError ? error.code : '';
      setFault(code === 'unauthorized' || code === 'forbidden' ? t(`signIn.${code}`) : explain(error));
      setBusy(false);
    }
  }

  return (
    <Center mih="100vh" p="md" component="main">
      <form className="card sign-in" onSubmit={(event) => void signIn(event)}>
        <Stack>
          <Group gap="sm">
            <Image src={`${import.meta.env.BASE_URL}icon.svg`} w={32} h={32} alt="" />
            <Text fw={650}>
              {t('app.name')} {t('app.console')}
            </Text>
          </Group>
          <Title order={1}>{t('signIn.title')}</Title>
          {reason && (
            <Alert color="blue" role="status">
              {t(reason === 'ended' ? 'signIn.ended' : 'signIn.out')}
            </Alert>
          )}
          <Text size="sm" c="dimmed">
            {t('signIn.lead')}
          </Text>
          <PasswordInput
            label={t('signIn.key')}
            placeholder="sk_live_…"
            value={key}
            onChange={(event) => setKey(event.currentTarget.value)}
            error={fault}
            aria-invalid={fault !== undefined}
            autoComplete="current-password"
            spellCheck={false}
            required
            data-autofocus
            visibilityToggleButtonProps={{ tabIndex: 0, 'aria-label': t('secret.reveal') }}
          />
          <Button type="submit" loading={busy} disabled={key.trim() === ''}>
            {t('signIn.submit')}
          </Button>
        </Stack>
      </form>
    </Center>
  );
}
