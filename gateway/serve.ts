import { loadConfig } from '@semblance/common/config';
import { describeError } from '@semblance/common/errors';
import { expiryCheck, observeExpiry } from '@semblance/common/grpc/tls/expiry';
import { openTls } from '@semblance/common/grpc/tls/tls';
import { createRegistry, startHealthServer } from '@semblance/common/health';
import { createLogger } from '@semblance/common/logging';
import { runService } from '@semblance/common/service';
import { openObjectStore } from '@semblance/objects/open';
import { checkAtStart } from '@semblance/objects/start-check';
import { drainTimes, gatewayShape } from './config.ts';
import { startGateway } from './gateway.ts';

const logger = createLogger({
  service: 'gateway',
  level: process.env.SEMBLANCE_LOG_LEVEL || 'info',
  gatherMs: 100,
});

/** Time for everything but the drain: running requests, last reports, open resources, in ms. */
const END_MS = 10_000;

function configOrExit() {
  try {
    return loadConfig(gatewayShape);
  } catch (error) {
    process.stderr.write(`${describeError(error)}\n`);
    process.exit(1);
  }
}

const config = configOrExit();
const drain = drainTimes(config);

async function start(): Promise<() => Promise<void>> {
  const store = openObjectStore({
    url: config.SEMBLANCE_OBJECTS_URL,
    signingKey: config.SEMBLANCE_OBJECTS_SIGNING_KEY,
    publicUrl: config.SEMBLANCE_PUBLIC_URL,
    internalUrl: config.SEMBLANCE_OBJECTS_INTERNAL_URL,
  });
  const objects = checkAtStart(store, logger);
  const registry = createRegistry('gateway');
  const tls = await openTls({ dir: config.SEMBLANCE_TLS_DIR, component: 'gateway', logger });
  observeExpiry(registry, tls);
  const gateway = await startGateway({
    listen: config.SEMBLANCE_GATEWAY_LISTEN,
    controlAddress: config.SEMBLANCE_CONTROL_ADDRESS,
    internalToken: config.SEMBLANCE_INTERNAL_TOKEN,
    tls,
    store,
    logger,
    registry,
    keyless: {
      perMinute: config.SEMBLANCE_GATEWAY_KEYLESS_PER_MINUTE,
      trustedProxies: config.SEMBLANCE_GATEWAY_TRUSTED_PROXIES,
    },
    outputReserveBytes: config.SEMBLANCE_GATEWAY_OUTPUT_RESERVE_MB * 1e6,
    console: config.SEMBLANCE_CONSOLE === 'on',
    tryPage: config.SEMBLANCE_TRY_PAGE === 'on',
    publicUrl: config.SEMBLANCE_PUBLIC_URL,
    timing: { serveOn: drain.serve, liveDrain: drain.live },
  });
  const health = await startHealthServer({
    listen: config.SEMBLANCE_HEALTH_LISTEN,
    service: 'gateway',
    registry,
    ready: { 'control plane': () => gateway.ready(), ...objects.ready, ...expiryCheck(tls) },
  });
  logger.info(
    { port: gateway.port, healthPort: health.port, control: config.SEMBLANCE_CONTROL_ADDRESS },
    'serving',
  );
  return async () => {
    await gateway.close();
    objects.close();
    await store.close();
    await health.close();
    tls?.close();
  };
}

runService(logger, start, drain.serve + drain.live + END_MS);
