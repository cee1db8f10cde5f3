import { type ClientOptions, credentials } from '@grpc/grpc-js';
import { call } from '@semblance/common/grpc/client';
import { EngineServiceClient, type HealthResponse } from '@semblance/proto/semblance/engine/v1/engine';
import { checkedInfo, type SidecarInfo } from './answers.ts';
import { createLink, type Link, type LinkTimes } from './link.ts';

/** Messages are short, because files travel beside the socket. */
const MAX_MESSAGE_BYTES = 256 * 1024;
/** Time for an engine to load its models, in ms. The host limits it. */
const WARM_UP_MS = 3_600_000;

export interface SidecarTimes extends LinkTimes {
  /** Time without a message after which a render counts as hanging, in ms. */
  readonly silenceMs: number;
  /** Time in which a render must end after its call was ended, in ms; the same as after a cancel. */
  readonly endMs: number;
}

export const SIDECAR_TIMES: SidecarTimes = {
  healthEveryMs: 1_000,
  deadAfterMs: 15_000,
  silenceMs: 60_000,
  endMs: 1_000,
};

/** The calls of one client to one sidecar. */
export interface Connection extends Link<SidecarInfo> {
  readonly client: EngineServiceClient;
  health(timeoutMs?: number): Promise<HealthResponse>;
  close(): void;
}

/** @param maxMessageBytes largest message that the client takes */
export function channelOptions(maxMessageBytes: number): ClientOptions {
  return {
    // The client uses health calls instead of HTTP/2 pings, which gRPC servers in other languages refuse by
    // default.
    'grpc.initial_reconnect_backoff_ms': 100,
    'grpc.min_reconnect_backoff_ms': 100,
    'grpc.max_reconnect_backoff_ms': 2_000,
    'grpc.max_receive_message_length': maxMessageBytes,
    'grpc.use_local_subchannel_pool': 1,
    'grpc.default_authority': 'localhost',
  };
}

export function connect(socket: string, times: SidecarTimes): Connection {
  const options = channelOptions(MAX_MESSAGE_BYTES);
  const client = new EngineServiceClient(`unix:${socket}`, credentials.createInsecure(), options);
  const health = (timeoutMs = 2_000) => call(client.health.bind(client), {}, { timeoutMs });
  const link = createLink(socket, times, {
    getInfo: async (signal) =>
      checkedInfo(await call(client.getInfo.bind(client), {}, { timeoutMs: 5_000, signal })),
    async warmUp(signal) {
      await call(client.warmUp.bind(client), {}, { timeoutMs: WARM_UP_MS, signal });
    },
    health,
    faultOf: ({ serving }) => (serving ? undefined : 'the sidecar takes no renders now'),
  });
  return { client, health, ...link, close: () => client.close() };
}
