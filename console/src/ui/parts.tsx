import {
  Anchor,
  Badge,
  Button,
  CopyButton,
  Group,
  Modal,
  Stack,
  Text,
  Title,
  VisuallyHidden,
} from '@mantine/core';
import { type ReactNode, useEffect, useState } from 'react';
import { Link } from 'wouter';
import { localTime, t, textOf, utcTime } from '../text/text.ts';
import { IconCheck, IconCopy } from './icons.ts';

interface PageProps {
  readonly title: string;
  readonly actions?: ReactNode;
  readonly lead?: string;
  readonly back?: { readonly to: string; readonly label: string };
  readonly children: ReactNode;
}

export function Page({ title, actions, lead, back, children }: PageProps) {
  useEffect(() => {
    document.title = `${title} · ${t('app.name')}`;
  }, [title]);
  return (
    <Stack className="page" gap="lg">
      <Stack gap={4}>
        {back && (
          <Anchor component={Link} href={back.to} size="sm">
            ← {back.label}
          </Anchor>
        )}
        <Group justify="space-between" gap="sm" mih={36}>
          <Title order={1}>{title}</Title>
          {actions && <Group gap="xs">{actions}</Group>}
        </Group>
        {lead && (
          <Text c="dimmed" size="sm" maw={640}>
            {lead}
          </Text>
        )}
      </Stack>
      {children}
    </Stack>
  );
}

/** A time in the reader's zone, with UTC when the pointer is on it. */
export function Time({ at }: { readonly at: string }) {
  return (
    <time dateTime={at} title={utcTime(at)} className="number">
      {localTime(at)}
    </time>
  );
}

const COLOURS: Readonly<Record<string, string>> = {
  queued: 'gray',
  processing: 'blue',
  pending: 'blue',
  succeeded: 'green',
  finished: 'green',
  delivered: 'green',
  enabled: 'green',
  failed: 'red',
  abandoned: 'red',
  disabled: 'gray',
};

export function Status({ of }: { readonly of: string }) {
  const colour = COLOURS[of] ?? 'gray';
  return (
    <Badge
      variant="light"
      color={colour}
      tt="none"
      fw={600}
      radius="sm"
      className={`status status-${colour}`}
    >
      {textOf('status', of)}
    </Badge>
  );
}

/** An id, shortened where it is long; it is copied whole. */
export function Id({ children }: { readonly children: string }) {
  return <span className="mono">{children}</span>;
}

export function Copy({ value, label = t('app.copy') }: { readonly value: string; readonly label?: string }) {
  return (
    <CopyButton value={value}>
      {({ copied, copy }) => (
        <Button
          size="xs"
          variant="default"
          onClick={copy}
          leftSection={copied ? <IconCheck size={14} aria-hidden /> : <IconCopy size={14} aria-hidden />}
        >
          {copied ? t('app.copied') : label}
        </Button>
      )}
    </CopyButton>
  );
}

interface ConfirmProps {
  /** What the button says that asks. */
  readonly label: string;
  readonly name?: string;
  readonly title: string;
  readonly text: string;
  readonly busy?: boolean;
  readonly size?: string;
  readonly onConfirm: () => Promise<unknown> | undefined;
}

/** A button of a change that cannot be taken back, with the question before it. */
export function Confirm({ label, name, title, text, busy = false, size = 'xs', onConfirm }: ConfirmProps) {
  const [asking, setAsking] = useState(false);
  return (
    <>
      <Button
        size={size}
        variant="default"
        className="danger"
        onClick={() => setAsking(true)}
        {...(name && { 'aria-label': name })}
      >
        {label}
      </Button>
      <Modal
        opened={asking}
        onClose={() => setAsking(false)}
        title={title}
        centered
        lockScroll={false}
        closeButtonProps={{ 'aria-label': t('app.close') }}
      >
        <Stack>
          <Text size="sm">{text}</Text>
          <Group justify="flex-end">
            <Button variant="default" onClick={() => setAsking(false)} data-autofocus>
              {t('app.cancel')}
            </Button>
            <Button
              color="red"
              loading={busy}
              onClick={() =>
                void onConfirm()?.then(
                  () => setAsking(false),
                  () => setAsking(false),
                )
              }
            >
              {label}
            </Button>
          </Group>
        </Stack>
      </Modal>
    </>
  );
}

export interface Column<Row> {
  readonly name: string;
  readonly cell: (row: Row) => ReactNode;
  readonly end?: boolean;
}

interface TableProps<Row> {
  readonly label: string;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly keyOf: (row: Row) => string;
}

/** A table that becomes a list of cards where there is little room. */
export function DataTable<Row>({ label, columns, rows, keyOf }: TableProps<Row>) {
  return (
    <table className="table" aria-label={label}>
      <thead>
        <tr>
          {columns.map(({ name, end }) => (
            <th key={name} scope="col" className={end ? 'end' : undefined}>
              {name || <VisuallyHidden>{t('app.actions')}</VisuallyHidden>}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={keyOf(row)}>
            {columns.map(({ name, cell, end }) => (
              <td key={name} data-label={name} className={end ? 'end' : undefined}>
                {cell(row)}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
