import { Tabs } from '@mantine/core';
import { useLocation } from 'wouter';
import { t } from '../text/text.ts';
import { Page } from '../ui/parts.tsx';
import { Deliveries } from './deliveries.tsx';
import { Endpoints } from './endpoints.tsx';
import { SigningSecret } from './secret.tsx';

export default function Webhooks({ params }: { readonly params: { readonly tab?: string } }) {
  const [, go] = useLocation();
  const tab = params.tab ?? 'endpoints';
  return (
    <Page title={t('webhooks.title')}>
      <Tabs
        value={tab}
        onChange={(next) => go(next === 'endpoints' ? '/webhooks' : `/webhooks/${next}`)}
        keepMounted={false}
      >
        <Tabs.List mb="md">
          <Tabs.Tab value="endpoints">{t('webhooks.endpoints')}</Tabs.Tab>
          <Tabs.Tab value="deliveries">{t('webhooks.deliveries')}</Tabs.Tab>
          <Tabs.Tab value="secret">{t('webhooks.secret')}</Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="endpoints">
          <Endpoints />
        </Tabs.Panel>
        <Tabs.Panel value="deliveries">
          <Deliveries />
        </Tabs.Panel>
        <Tabs.Panel value="secret">
          <SigningSecret />
        </Tabs.Panel>
      </Tabs>
    </Page>
  );
}
