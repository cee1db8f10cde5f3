import { status } from '@grpc/grpc-js';
import { GrpcError, type GrpcService, type UnaryHandler, unary } from '#common/grpc/server.ts';
import type { Logger } from '#common/logging.ts';
import { parseVoice, type Voice, VoiceError } from '#common/voices/voice.ts';
import { type VoiceServiceServer, VoiceServiceService } from '#proto/semblance/live/v1/live.ts';
import type { AgentMetrics } from '../../../metrics.ts';
import { PreviewError, type Previews } from './preview.ts';

export interface VoiceServiceOptions {
  readonly previews: Previews;
  readonly logger: Logger;
  readonly metrics: Pick<AgentMetrics, 'calls'>;
}

const REFUSAL = {
  cannot_speak: status.FAILED_PRECONDITION,
  busy: status.RESOURCE_EXHAUSTED,
} as const satisfies Record<PreviewError['code'], status>;

/** VoiceService of proto/semblance/live/v1: what the control plane asks of this process. */
export function createVoiceService({ previews, logger, metrics }: VoiceServiceOptions): GrpcService {
  /** Measures a call: how long, and with which status it ended. */
  const timed = <Request, Response>(method: string, handler: UnaryHandler<Request, Response>) =>
    unary<Request, Response>(logger, async (request, context) => {
      const end = metrics.calls.startTimer({ method });
      try {
        const response = await handler(request, context);
        end({ status: 'OK' });
        return response;
      } catch (error) {
        end({ status: status[error instanceof GrpcError ? error.code : status.INTERNAL] });
        throw error;
      }
    });

  const implementation: VoiceServiceServer = {
    previewVoice: timed('PreviewVoice', async ({ voice }, { signal }) => {
      try {
        return { wav: await previews.make(voiceOf(voice), signal) };
      } catch (error) {
        if (error instanceof PreviewError) throw new GrpcError(REFUSAL[error.code], error.message);
        throw error;
      }
    }),
  };
  return {
    definition: VoiceServiceService,
    implementation: implementation as unknown as GrpcService['implementation'],
    name: 'semblance.live.v1.VoiceService',
  };
}

function voiceOf(definition: string): Voice {
  try {
    return parseVoice(definition, 'voice');
  } catch (error) {
    if (error instanceof VoiceError) throw new GrpcError(status.INVALID_ARGUMENT, error.message);
    throw error;
  }
}
