/** The webhook worker alone, as the control plane runs it, in a process of its own. Ends with its standard input. */
import { createNatsBus } from '#common/events/nats-bus.ts';
import { createLogger } from '#common/logging.ts';
import { openObjectStore } from '#common/objects/open.ts';
import { createJobView } from '../../../control-plane/jobs/job-view.ts';
import { openDatabase } from '../../../control-plane/storage/database.ts';
import { createAddressGuard } from '../../../control-plane/webhooks/addresses.ts';
import { createSender } from '../../../control-plane/webhooks/sender.ts';
import { createWebhookWorker } from '../../../control-plane/webhooks/worker.ts';

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
  sender: createSender({ guard: createAddressGuard(['127.0.0.0/8']) }),
  view: createJobView({ objects }),
  logger,
});
await worker.run(stop.signal);
await events.close();
await database.close();
await objects.close();
