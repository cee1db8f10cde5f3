import { Anchor, Center, Loader, Notification, Stack } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { lazy, Suspense, useCallback, useEffect, useState } from 'react';
import { Link, Route, Router, Switch } from 'wouter';
import { ApiError, call, whenSignedOut } from './api/client.ts';
import type { ConsoleSession } from './api/types.ts';
import { Overview } from './pages/overview.tsx';
import { SignIn, type SignInReason } from './pages/sign-in.tsx';
import { Shell } from './shell.tsx';
import { t } from './text/text.ts';
import { Page } from './ui/parts.tsx';
import { Failure, Rows } from './ui/states.tsx';
import { type Notice, Notices } from './ui/use-change.tsx';

const pages = {
  '/jobs': lazy(() => import('./pages/jobs.tsx')),
  '/jobs/:id': lazy(() => import('./pages/job.tsx')),
  '/batches': lazy(() => import('./pages/batches.tsx')),
  '/live': lazy(() => import('./pages/live.tsx')),
  '/usage': lazy(() => import('./pages/usage.tsx')),
  '/files': lazy(() => import('./pages/files.tsx')),
  '/webhooks/:tab?': lazy(() => import('./pages/webhooks.tsx')),
  '/keys': lazy(() => import('./pages/keys.tsx')),
  '/browsers': lazy(() => import('./pages/browsers.tsx')),
};

const NOTICE_MS = 8_000;

export function App() {
  const client = useQueryClient();
  const [reason, setReason] = useState<SignInReason>();
  const [notice, setNotice] = useState<Notice>();
  const notify = useCallback((next: Notice) => setNotice(next), []);

  const session = useQuery<ConsoleSession | null>({
    queryKey: ['session'],
    staleTime: Number.POSITIVE_INFINITY,
    queryFn: async ({ signal }) => {
      const { sessions } = await call<{ sessions: ConsoleSession[] }>('/console/sessions', { signal }).catch(
        (error: unknown) => {
          if (error instanceof ApiError && error.status === 401) return { sessions: [] };
          throw error;
        },
      );
      return sessions.find(({ current }) => current) ?? null;
    },
  });

  const leave = useCallback(
    (why: SignInReason) => {
      setReason(why);
      setNotice(undefined);
      // Nothing of the account stays in the page.
      client.clear();
      client.setQueryData(['session'], null);
    },
    [client],
  );
  useEffect(() => {
    whenSignedOut(() => {
      // The first question is how the page learns that nobody is signed in.
      if (client.getQueryData(['session'])) leave('ended');
    });
  }, [client, leave]);
  useEffect(() => {
    if (!notice || notice.failed) return;
    const timer = setTimeout(() => setNotice(undefined), NOTICE_MS);
    return () => clearTimeout(timer);
  }, [notice]);

  if (session.isPending)
    return (
      <Center h="100vh" role="status" aria-label={t('app.console')}>
        <Loader />
      </Center>
    );
  if (session.isError)
    return (
      <Center h="100vh" p="md">
        <Failure error={session.error} retry={() => void session.refetch()} />
      </Center>
    );
  if (!session.data)
    return (
      <SignIn
        reason={reason}
        onSignedIn={(made) => {
          setReason(undefined);
          client.setQueryData(['session'], made);
        }}
      />
    );

  return (
    <Notices.Provider value={notify}>
      <Router base="/console">
        <Shell onSignOut={() => leave('out')}>
          <Suspense fallback={<Rows />}>
            <Switch>
              <Route path="/" component={Overview} />
              {Object.entries(pages).map(([path, Component]) => (
                <Route key={path} path={path} component={Component as never} />
              ))}
              <Route>
                <Page title={t('missing.title')} lead={t('missing.text')}>
                  <Anchor component={Link} href="/">
                    {t('missing.home')}
                  </Anchor>
                </Page>
              </Route>
            </Switch>
          </Suspense>
        </Shell>
      </Router>
      <Stack className="notices" role="status" aria-live="polite">
        {notice && (
          <Notification
            title={notice.title}
            color={notice.failed ? 'red' : 'green'}
            withBorder
            onClose={() => setNotice(undefined)}
            closeButtonProps={{ 'aria-label': t('app.close') }}
          >
            {notice.text}
          </Notification>
        )}
      </Stack>
    </Notices.Provider>
  );
}
