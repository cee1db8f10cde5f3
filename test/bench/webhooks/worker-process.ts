/** The webhook worker alone, as the control plane runs it, in a separate process. Ends with its standard input. */

import { createLogger } from '@semblance/common/logging';
import { createJobView } from '@semblance/control-plane/jobs/job-view';
import { openDatabase } from '@semblance/control-plane/storage/database';
import { createAddressGuard } from '@semblance/control-plane/webhooks/addresses';
import { createSender } from '@semblance/control-plane/webhooks/sender';
import { createWebhookWorker } from '@semblance/control-plane/webhooks/worker';
import { createNatsBus } from '@semblance/events/nats-bus';
import { openObjectStore } from '@semblance/objects/open';

const [postgresUrl = '', natsUrl = '', objectsFolder = ''] = process.argv.slice(2);
const logger = createLogger({ service: 'webhooks', level: 'warn' });
const stop = new AbortController();
process.stdin.resume();
process.stdin.once('end', () => stop.abort());

const events = createNatsBus({ url: natsUrl, name: 'bench', logger });
const database = openDatabase({ url: postgresUrl });
const objects = openObjectStore({
  url: `file://${objectsFolder}`,
  signingKey: Buffer.alloc(32, 1),
  publicUrl: 'https://media.example.com',
});
const worker = createWebhookWorker({
  database,
  events,
  sender: createSender({ guard: createAddressGuard({ allow: ['127.0.0.0/8'] }) }),
  view: createJobView({ objects }),
  logger,
});
await worker.run(stop.signal);
await events.close();
await database.close();
await objects.close();
