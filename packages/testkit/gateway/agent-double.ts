import { type ServerDuplexStream, status } from '@grpc/grpc-js';
import { startGrpcServer } from '@semblance/common/grpc/server';
import { freePort } from '@semblance/local/process/ports';
import {
  type EndReason,
  type LiveServiceServer,
  LiveServiceService,
  type RelayOpen,
  type RelayReady,
  type RelayRequest,
  type RelayResponse,
} from '@semblance/proto/semblance/live/v1/live';

export const VOICE_READY: RelayReady = {
  firstFrame: '{"sample_rate":48000,"chunk_frames":960}',
  maxMessageBytes: 192_000,
  changeable: [],
  format: { $case: 'voice', value: { sampleRate: 48_000, chunkFrames: 960 } },
};

export const PICTURES = {
  width: 640,
  height: 480,
  fps: 25,
  codec: 'jpeg',
  maxSide: 1280,
  maxPixels: 1280 * 720,
};

export const PICTURE_READY: RelayReady = {
  firstFrame: '{"width":640,"height":480,"fps":25,"codec":"jpeg"}',
  maxMessageBytes: 4 * 1024 * 1024 - 1024,
  changeable: [],
  format: { $case: 'picture', value: PICTURES },
};

type Call = ServerDuplexStream<RelayRequest, RelayResponse>;

/** One relay as the agent sees it. */
export class RelayDouble {
  readonly call: Call;
  readonly open: RelayOpen;
  /** Bytes of each received message. */
  readonly received: Buffer[] = [];
  /** Reason of the received close. */
  closed: EndReason | undefined;
  /** Client's fault that the close named. */
  fault: string | undefined;
  /** Whether either side ended the stream. */
  over = false;
  /** Received messages without an answer. */
  readonly waiting: { sequence: bigint; data: Buffer }[] = [];

  constructor(call: Call, open: RelayOpen) {
    this.call = call;
    this.open = open;
  }

  media(sequence: bigint, data: Buffer): void {
    this.call.write({ response: { $case: 'media', value: { sequence, data } } });
  }

  /** Answers every waiting message with its own bytes. */
  answerAll(): void {
    for (const { sequence, data } of this.waiting.splice(0)) this.media(sequence, data);
  }

  /** Reports that a message is unreadable. */
  unreadable(sequence: bigint): void {
    this.call.write({ response: { $case: 'unreadable', value: { sequence } } });
  }

  /** Announces the end of the session. */
  ending(inSeconds: number): void {
    this.call.write({ response: { $case: 'ending', value: { reason: 'agent_draining', inSeconds } } });
  }

  ended(reason: EndReason, message: string, goingAway = false, rejected = ''): void {
    this.call.write({ response: { $case: 'ended', value: { reason, message, goingAway, rejected } } });
    this.call.end();
  }

  /** Breaks the stream, as a killed process would. */
  break(): void {
    this.call.emit('error', { code: status.UNAVAILABLE, details: 'the agent is gone' });
  }
}

/** Agent that answers relays by a script, over real gRPC. */
export class AgentDouble {
  readonly relays: RelayDouble[] = [];
  ready: RelayReady = VOICE_READY;
  /** Treatment of a message: `echo` answers it, `hold` keeps it for the test, `refuse` reports it as unreadable. */
  mode: 'echo' | 'hold' | 'refuse' = 'echo';
  /** Called with the open of each relay. It replaces the answer `ready` when it returns true. */
  onOpen: ((relay: RelayDouble) => boolean) | undefined;
  keep = true;
  port = 0;
  close: () => Promise<void> = async () => {};
  token: string | undefined;

  get address(): string {
    return `127.0.0.1:${this.port}`;
  }

  relayOf(sessionId: string): RelayDouble {
    const found = this.relays.find(({ open }) => open.sessionId === sessionId);
    if (!found) throw new Error(`no relay for ${sessionId}`);
    return found;
  }

  async start(port?: number): Promise<void> {
    const implementation = {
      relay: (call: Call) => this.#serve(call),
    } as unknown as LiveServiceServer & Record<string, never>;
    const server = await startGrpcServer({
      listen: { host: '127.0.0.1', port: port ?? (await freePort()) },
      services: [
        {
          definition: LiveServiceService,
          implementation,
          name: 'semblance.live.v1.LiveService',
          token: this.token,
        },
      ],
    });
    this.port = server.port;
    this.close = () => server.close(100);
  }

  #serve(call: Call): void {
    let relay: RelayDouble | undefined;
    const over = () => {
      if (relay) relay.over = true;
    };
    call.on('data', ({ request }: RelayRequest) => {
      if (request?.$case === 'open') {
        relay = new RelayDouble(call, request.value);
        this.relays.push(relay);
        if (!this.onOpen?.(relay)) call.write({ response: { $case: 'ready', value: this.ready } });
      } else if (request?.$case === 'close') {
        if (relay) Object.assign(relay, { closed: request.value.reason, fault: request.value.fault });
      } else if (request?.$case === 'media' && relay) {
        const { sequence, data } = request.value;
        if (this.keep) relay.received.push(data);
        if (this.mode === 'echo') relay.media(sequence, data);
        else if (this.mode === 'refuse') relay.unreadable(sequence);
        else relay.waiting.push({ sequence, data });
      }
    });
    call.on('end', () => {
      over();
      call.end();
    });
    call.on('cancelled', over);
    call.on('error', over);
  }
}
