import { describeError } from '@semblance/common/errors';
import { createOwnCertificate } from '@semblance/common/grpc/tls/own-certificate';
import { openTls } from '@semblance/common/grpc/tls/tls';
import { createLogger } from '@semblance/common/logging';
import { runService } from '@semblance/common/service';
import { startAgent } from './agent.ts';
import { type AgentSettings, loadSettings } from './settings.ts';

/** Time for all of the end except the drain, in ms: last results, last API calls, engine processes, files. */
const END_MS = 12_000;

function settingsOrExit(): AgentSettings {
  try {
    return loadSettings();
  } catch (error) {
    process.stderr.write(`${describeError(error)}\n`);
    process.exit(1);
  }
}

const settings = settingsOrExit();
const logger = createLogger({ service: 'gpu-agent', level: settings.logLevel });

runService(
  logger,
  async (signal) => {
    // A certificate for each process: callers read it from the GpuAgent, which no other agent may write.
    const own = settings.tlsDir === undefined ? undefined : await createOwnCertificate('agent');
    const tls = await openTls({ dir: settings.tlsDir, component: 'agent', own, logger });
    const agent = await startAgent({ settings, logger, signal, tls });
    agent.failed.catch(async (error: unknown) => {
      logger.fatal({ err: error }, `ending the agent: ${describeError(error)}`);
      await agent.close();
      logger.flush(() => process.exit(1));
    });
    return agent.close;
  },
  settings.drainMs + END_MS,
);
