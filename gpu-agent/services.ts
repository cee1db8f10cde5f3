import { startGrpcServer } from '@semblance/common/grpc/server';
import type { Tls } from '@semblance/common/grpc/tls/tls';
import type { Logger } from '@semblance/common/logging';
import { VERSION } from '@semblance/common/version';
import { createPreviews } from '@semblance/voice/preview/preview';
import type { WorkDir } from './assets/work-dir.ts';
import type { AgentService } from './attempts/agent-service.ts';
import type { EngineSet } from './engines/engine-set.ts';
import { createInspectionService } from './inspections/inspection-service.ts';
import type { Inspections } from './inspections/inspections.ts';
import type { Live } from './live/live.ts';
import { createVoiceService } from './live/voice-service.ts';
import type { AgentMetrics } from './metrics.ts';
import type { Registration } from './registration/registration.ts';
import type { AgentSettings } from './settings.ts';

/** Starts the gRPC services of the agent. */
export async function startServices({
  settings,
  tls,
  workDir,
  attempts,
  inspections,
  live,
  logger,
  metrics,
}: {
  readonly settings: AgentSettings;
  readonly tls: Tls | undefined;
  readonly workDir: WorkDir;
  readonly attempts: AgentService;
  readonly inspections: Inspections;
  readonly live: Live;
  readonly logger: Logger;
  readonly metrics: AgentMetrics;
}): Promise<{ readonly port: number; close(): Promise<void> }> {
  if (!settings.internalToken && !tls) {
    logger.warn('SEMBLANCE_INTERNAL_TOKEN is not set: anyone who reaches the gRPC port may call it');
  }
  const generator = { name: 'Semblance', version: VERSION };
  const previews = createPreviews({ directory: workDir.engines, generator });
  const services = [
    attempts,
    createInspectionService({ inspections, logger, metrics }),
    live.service,
    createVoiceService({ previews, logger, metrics }),
  ];
  const token = settings.internalToken;
  const grpc = await startGrpcServer({
    listen: settings.listen,
    services: services.map((each) => ({ ...each, token })),
    tls,
  });
  return {
    port: grpc.port,
    async close() {
      attempts.endWatches();
      live.service.endWatches();
      await grpc.close();
    },
  };
}

/** Returns the checks for `/readyz`; each throws an Error whose message is the reason. */
export function readyChecks({
  engines,
  registration,
  isEnding,
}: {
  readonly engines: EngineSet;
  readonly registration: Registration;
  readonly isEnding: () => boolean;
}): Record<string, () => void> {
  return {
    engines: () => failIf(engines.capacity === 0, engines.trouble ?? 'no engine process is warm'),
    devices: () => failIf(engines.deviceTrouble !== undefined, engines.deviceTrouble ?? ''),
    lease: () => failIf(!registration.holdsLease, 'the Lease is not held'),
    registered: () => failIf(!registration.registered, 'the GpuAgent is not written yet'),
    ending: () => failIf(isEnding(), 'the agent is ending'),
  };
}

function failIf(condition: boolean, reason: string): void {
  if (condition) throw new Error(reason);
}
