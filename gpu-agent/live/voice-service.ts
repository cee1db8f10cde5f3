import { status } from '@grpc/grpc-js';
import { GrpcError, type GrpcService } from '@semblance/common/grpc/server';
import type { Logger } from '@semblance/common/logging';
import { parseVoice, type Voice, VoiceError } from '@semblance/common/voices/voice';
import { type VoiceServiceServer, VoiceServiceService } from '@semblance/proto/semblance/live/v1/live';
import { PreviewError, type Previews } from '@semblance/voice/preview/preview';
import { timedCalls } from '../grpc/timed.ts';
import type { AgentMetrics } from '../metrics.ts';

export interface VoiceServiceOptions {
  readonly previews: Previews;
  readonly logger: Logger;
  readonly metrics: Pick<AgentMetrics, 'calls'>;
}

const REFUSAL = {
  cannot_speak: status.FAILED_PRECONDITION,
  busy: status.RESOURCE_EXHAUSTED,
} as const satisfies Record<PreviewError['code'], status>;

/** Creates the VoiceService of proto/semblance/live/v1, which the control plane calls. */
export function createVoiceService({ previews, logger, metrics }: VoiceServiceOptions): GrpcService {
  const timed = timedCalls(logger, metrics);
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
