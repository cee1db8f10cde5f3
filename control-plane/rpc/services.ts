import type { ListenAddress } from '@semblance/common/config';
import { startGrpcServer } from '@semblance/common/grpc/server';
import type { Tls } from '@semblance/common/grpc/tls/tls';
import type { Logger } from '@semblance/common/logging';
import type { Voice } from '@semblance/common/voices/voice';
import type { ObjectStore } from '@semblance/objects/store';
import type { createGate } from '../accounts/gate.ts';
import { createOidc, type OidcSettings } from '../admin-tokens/oidc.ts';
import type { Fleet } from '../agents/capacity.ts';
import { createFaceCalls } from '../faces/face-calls.ts';
import type { FindFaces } from '../faces/find-faces.ts';
import type { PreviewFrame } from '../inspections/frame-previewer.ts';
import type { Inspect } from '../inspections/inspector.ts';
import type { Jobs } from '../jobs/jobs.ts';
import type { createRemovals } from '../media/removals.ts';
import { createSignedLinks } from '../media/signed-links.ts';
import type { Metrics } from '../metrics.ts';
import { createSessionChanger } from '../sessions/change.ts';
import type { CertificateOf } from '../sessions/connect.ts';
import type { createSessions } from '../sessions/sessions.ts';
import type { Database } from '../storage/database.ts';
import { createResumableUploads } from '../uploads/resumable-uploads.ts';
import type { createUploads } from '../uploads/uploads.ts';
import { createWatchStreams } from '../watch/watch-stream.ts';
import type { Endpoints } from '../webhooks/endpoints.ts';
import { createAdminService } from './admin-service.ts';
import { createBatchCalls } from './batch-calls.ts';
import { createConsoleCalls } from './console-calls.ts';
import { createControlService } from './control-service.ts';
import { createJobCalls } from './job-calls.ts';
import { createKeyCalls } from './key-calls.ts';
import { createMediaCalls } from './media-calls.ts';
import { createMessageStreams, type MessageStreamsOptions } from './message-streams.ts';
import { createSessionCalls } from './session-calls.ts';
import { readTogether, submitTogether } from './together.ts';
import { createWebhookCalls } from './webhook-calls.ts';

export interface ServicesOptions {
  readonly options: {
    readonly listen: ListenAddress;
    readonly adminToken: string;
    readonly oidc?: OidcSettings | undefined;
    /** Required from callers of ControlService; the admin service has a token of its own. */
    readonly internalToken?: string | undefined;
    readonly tls?: Tls | undefined;
    readonly objects: ObjectStore;
    readonly logger: Logger;
    readonly namespace: string;
    readonly now?: (() => Date) | undefined;
  };
  readonly database: Database;
  readonly metrics: Metrics;
  readonly jobs: Jobs;
  readonly uploads: ReturnType<typeof createUploads>;
  readonly removals: ReturnType<typeof createRemovals>;
  readonly gate: ReturnType<typeof createGate>;
  readonly sessions: ReturnType<typeof createSessions>;
  readonly endpoints: Endpoints;
  readonly voices: ReadonlyMap<string, Voice>;
  readonly inspect: Inspect;
  readonly findFaces: FindFaces;
  readonly previewFrame: PreviewFrame;
  readonly certificateOf: CertificateOf;
  readonly fleet: Fleet;
}

/** Starts the gRPC services. `close` ends their streams first. */
export async function startServices({
  options,
  database,
  metrics,
  jobs: { submit, submitTogether: submitOneOfMany, batches, callbackCheck, canceller, view, watchHub },
  uploads,
  removals,
  gate,
  sessions,
  endpoints,
  voices,
  inspect,
  findFaces,
  previewFrame,
  certificateOf,
  fleet,
}: ServicesOptions): Promise<{ readonly port: number; close(): Promise<void> }> {
  const { logger, objects, now } = options;
  const watchStreams = createWatchStreams({ gate, database, hub: watchHub, logger });
  const streamsOf = <Request, Result>(
    method: string,
    answer: MessageStreamsOptions<Request, Result>['answer'],
  ) => createMessageStreams({ method, answer, logger, onAnswered: metrics.answered(method) });
  const readStreams = streamsOf('ReadJobs', readTogether(gate, view));
  const submitStreams = streamsOf('SubmitJobs', submitTogether({ gate, submit: submitOneOfMany, logger }));
  const control = createControlService({
    logger,
    database,
    gate,
    readJobs: readStreams.handle,
    submitJobs: submitStreams.handle,
    uploads,
    resumable: createResumableUploads({ database, objects }),
    submit,
    view,
    jobCalls: createJobCalls({
      database,
      gate,
      view,
      canceller,
      inspect,
      previewFrame,
      callbackCheck,
      webhooks: true,
      agents: () => fleet.agents.list(),
    }),
    faceCalls: createFaceCalls({ gate, findFaces, links: createSignedLinks({ objects }) }),
    batchCalls: createBatchCalls({ database, gate, view, batches, canceller }),
    mediaCalls: createMediaCalls({ database, gate, removals }),
    webhookCalls: createWebhookCalls({ database, gate, endpoints }),
    keyCalls: createKeyCalls({ database, gate }),
    consoleCalls: createConsoleCalls({ database, gate }),
    sessionCalls: createSessionCalls({
      database,
      gate,
      ...sessions,
      voices,
      links: createSignedLinks({ objects }),
      endSession: sessions.nudge,
      certificateOf,
      change: createSessionChanger({ ...options, database, voices, certificateOf }),
    }),
    metrics,
    watchJobs: watchStreams.handle,
    now,
  });
  const admin = createAdminService({
    logger,
    database,
    metrics,
    removals,
    voices,
    token: options.adminToken,
    oidc: options.oidc && createOidc(options.oidc),
    endSession: sessions.nudge,
    fleet,
    namespace: options.namespace,
  });
  const server = await startGrpcServer({
    listen: options.listen,
    services: [{ ...control, token: options.internalToken }, admin],
    tls: options.tls,
  });
  return {
    port: server.port,
    async close() {
      watchStreams.end();
      readStreams.end();
      submitStreams.end();
      await server.close();
    },
  };
}
