import {
  ActionIcon,
  AppShell,
  Burger,
  Group,
  Image,
  NavLink,
  Text,
  useComputedColorScheme,
  useMantineColorScheme,
} from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import type { ReactNode } from 'react';
import { Link, useLocation } from 'wouter';
import { call } from './api/client.ts';
import { type TextKey, t } from './text/text.ts';
import {
  IconActivity,
  IconChartBar,
  IconDeviceDesktop,
  IconFileShredder,
  IconHome,
  IconKey,
  IconLogout,
  IconMoon,
  IconPhoto,
  IconStack2,
  IconSun,
  IconWebhook,
} from './ui/icons.ts';

const LINKS: readonly { to: string; text: TextKey; icon: typeof IconHome }[] = [
  { to: '/', text: 'nav.overview', icon: IconHome },
  { to: '/jobs', text: 'nav.jobs', icon: IconPhoto },
  { to: '/batches', text: 'nav.batches', icon: IconStack2 },
  { to: '/live', text: 'nav.live', icon: IconActivity },
  { to: '/usage', text: 'nav.usage', icon: IconChartBar },
  { to: '/files', text: 'nav.files', icon: IconFileShredder },
  { to: '/webhooks', text: 'nav.webhooks', icon: IconWebhook },
  { to: '/keys', text: 'nav.keys', icon: IconKey },
  { to: '/browsers', text: 'nav.browsers', icon: IconDeviceDesktop },
];

interface ShellProps {
  readonly onSignOut: () => void;
  readonly children: ReactNode;
}

export function Shell({ onSignOut, children }: ShellProps) {
  const [open, { toggle, close }] = useDisclosure();
  const [location] = useLocation();

  const signOut = () =>
    // Where there is no answer, the session is left to end by itself, and the page forgets it.
    call('/console/sessions/current', { method: 'DELETE' }).then(onSignOut, onSignOut);

  return (
    <AppShell
      header={{ height: 56 }}
      navbar={{ width: 232, breakpoint: 'sm', collapsed: { mobile: !open } }}
      padding={{ base: 'md', sm: 'xl' }}
    >
      <a className="skip" href="#main">
        {t('app.skip')}
      </a>
      <AppShell.Header>
        <Group h="100%" px="md" justify="space-between" wrap="nowrap">
          <Group gap="sm" wrap="nowrap">
            <Burger
              opened={open}
              onClick={toggle}
              hiddenFrom="sm"
              size="sm"
              aria-label={t('app.menu')}
              aria-expanded={open}
            />
            <Image src={`${import.meta.env.BASE_URL}icon.svg`} w={28} h={28} alt="" />
            <Text fw={650}>{t('app.name')}</Text>
            <Text c="dimmed" size="sm" visibleFrom="xs">
              {t('app.console')}
            </Text>
          </Group>
          <Group gap="xs" wrap="nowrap">
            <SchemeButton />
            <ActionIcon
              variant="default"
              size="lg"
              aria-label={t('app.signOut')}
              title={t('app.signOut')}
              onClick={() => void signOut()}
            >
              <IconLogout size={18} aria-hidden />
            </ActionIcon>
          </Group>
        </Group>
      </AppShell.Header>
      <AppShell.Navbar p="sm" aria-label={t('app.menu')}>
        {LINKS.map(({ to, text, icon: Icon }) => {
          const active = to === '/' ? location === '/' : location.startsWith(to);
          return (
            <NavLink
              key={to}
              component={Link}
              href={to}
              label={t(text)}
              leftSection={<Icon size={18} strokeWidth={1.8} aria-hidden />}
              active={active}
              aria-current={active ? 'page' : undefined}
              onClick={close}
              className="nav"
            />
          );
        })}
      </AppShell.Navbar>
      <AppShell.Main id="main" tabIndex={-1}>
        {children}
      </AppShell.Main>
    </AppShell>
  );
}

function SchemeButton() {
  const { setColorScheme } = useMantineColorScheme();
  const scheme = useComputedColorScheme('light');
  const Icon = scheme === 'dark' ? IconSun : IconMoon;
  return (
    <ActionIcon
      variant="default"
      size="lg"
      aria-label={t('app.scheme')}
      title={t('app.scheme')}
      onClick={() => setColorScheme(scheme === 'dark' ? 'light' : 'dark')}
    >
      <Icon size={18} aria-hidden />
    </ActionIcon>
  );
}
