import { once } from 'node:events';
import type { ClientDuplexStream, StatusObject } from '@grpc/grpc-js';
import {
  EndReason,
  type LiveServiceClient,
  type Media,
  type RelayEnded,
  type RelayEnding,
  type RelayOpen,
  type RelayReady,
  type RelayRequest,
  type RelayResponse,
} from '@semblance/proto/semblance/live/v1/live';

/** Gateway's side of a relay. */
export interface RelayClient {
  readonly call: ClientDuplexStream<RelayRequest, RelayResponse>;
  /** Rejects with the status when the relay is refused. */
  readonly ready: Promise<RelayReady>;
  /** Received media that was not taken yet. */
  readonly media: Media[];
  /** Sequence numbers of the unreadable messages. */
  readonly unreadable: bigint[];
  /** Status with which the call ended. */
  readonly over: Promise<StatusObject>;
  ended(): RelayEnded | undefined;
  /** Returns the announced end, if there is one. */
  ending(): RelayEnding | undefined;
  /** Returns false while the transport is full. */
  send(data: Uint8Array): boolean;
  /** Resolves with the next converted message. Rejects when the relay ends first. */
  next(): Promise<Media>;
  /** Ends the session; resolves when the agent has ended the call. */
  close(reason?: EndReason, fault?: string): Promise<void>;
}

export function openRelay(client: LiveServiceClient, open: RelayOpen): RelayClient {
  const call = client.relay();
  const media: Media[] = [];
  const unreadable: bigint[] = [];
  let ended: RelayEnded | undefined;
  let ending: RelayEnding | undefined;
  let sequence = 0n;
  let wake = () => {};
  let status: StatusObject | undefined;
  const ready = Promise.withResolvers<RelayReady>();
  ready.promise.catch(() => {});
  call.on('error', () => {});
  const over = new Promise<StatusObject>((resolve) => {
    call.on('status', (end: StatusObject) => {
      status = end;
      ready.reject(end);
      resolve(end);
      wake();
    });
  });
  call.on('data', ({ response }: RelayResponse) => {
    if (response?.$case === 'ready') ready.resolve(response.value);
    else if (response?.$case === 'media') media.push(response.value);
    else if (response?.$case === 'unreadable') unreadable.push(response.value.sequence);
    else if (response?.$case === 'ended') ended = response.value;
    else if (response?.$case === 'ending') ending = response.value;
    wake();
  });
  call.write({ request: { $case: 'open', value: open } });
  return {
    call,
    ready: ready.promise,
    media,
    unreadable,
    over,
    ended: () => ended,
    ending: () => ending,
    send: (data) =>
      call.write({
        request: { $case: 'media', value: { sequence: ++sequence, data: Buffer.from(data) } },
      }),
    async next() {
      for (;;) {
        const first = media.shift();
        if (first) return first;
        if (status) throw new Error(`the relay ended: ${status.details}`);
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    },
    async close(reason = EndReason.END_REASON_UNSPECIFIED, fault = '') {
      call.write({ request: { $case: 'close', value: { reason, fault } } });
      if (!status) await once(call, 'status');
    },
  };
}
