import { Alert, Button, Skeleton, Stack, Text, ThemeIcon } from '@mantine/core';
import type { UseQueryResult } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { ApiError } from '../api/client.ts';
import { t } from '../text/text.ts';
import { IconAlertTriangle, IconInbox } from './icons.ts';

/** Returns what went wrong and what to do, in words. */
export function explain(error: unknown): string {
  if (!(error instanceof ApiError)) return t('error.internal_error');
  const { code, message, retryAfter } = error;
  if (code === 'unreachable') return t('error.unreachable');
  if (code === 'rate_limited') return t('error.rate_limited', { seconds: retryAfter ?? 60 });
  if (code === 'forbidden') return t('error.forbidden', { message });
  if (code === 'not_found') return t('error.not_found');
  return code === 'internal_error' ? t('error.internal_error') : message;
}

export function Failure({ error, retry }: { readonly error: unknown; readonly retry?: () => void }) {
  return (
    <Alert color="red" icon={<IconAlertTriangle aria-hidden />} title={t('error.title')} role="alert">
      <Stack gap="sm" align="flex-start">
        <Text size="sm">{explain(error)}</Text>
        {retry && (
          <Button size="xs" variant="default" onClick={retry}>
            {t('app.retry')}
          </Button>
        )}
      </Stack>
    </Alert>
  );
}

export interface EmptyProps {
  readonly title: string;
  readonly hint: string;
  readonly children?: ReactNode;
}

export function Empty({ title, hint, children }: EmptyProps) {
  return (
    <Stack align="center" gap={6} py={48} px="md">
      <ThemeIcon size={44} radius="xl" variant="light" color="gray" mb={6}>
        <IconInbox size={22} aria-hidden />
      </ThemeIcon>
      <Text fw={600}>{title}</Text>
      <Text size="sm" c="dimmed" ta="center" maw={420}>
        {hint}
      </Text>
      {children}
    </Stack>
  );
}

/** As high as some rows, so that nothing jumps when they come. */
export function Rows({ rows = 6 }: { readonly rows?: number }) {
  return (
    <Stack gap="sm" p="md" aria-busy="true" role="status" aria-label="…">
      {Array.from({ length: rows }, (_, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: they are alike
        <Skeleton key={i} height={28} radius="sm" />
      ))}
    </Stack>
  );
}

interface LoadedProps<T> {
  readonly query: UseQueryResult<T>;
  readonly loading?: ReactNode;
  readonly children: (value: T) => ReactNode;
}

/** Shows an answer, or that it is on its way, or why it is not there. */
export function Loaded<T>({ query, loading = <Rows />, children }: LoadedProps<T>) {
  // A query that fails on a refresh keeps what it had.
  if (query.data !== undefined) return children(query.data);
  if (query.isError) return <Failure error={query.error} retry={() => void query.refetch()} />;
  return loading;
}
