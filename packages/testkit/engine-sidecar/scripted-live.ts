import { rm } from 'node:fs/promises';
import { Server, ServerCredentials, type ServerDuplexStream, status } from '@grpc/grpc-js';
import {
  type ConvertRequest,
  type ConvertResponse,
  GetInfoResponse,
  LiveEngineServiceService,
  type OpenRequest,
  OpenResponse,
  PictureTransport,
  type Sound,
} from '@semblance/proto/semblance/engine/live/v1/live_engine';

type Request = NonNullable<ConvertRequest['request']>;
type Response = NonNullable<ConvertResponse['response']>;
export type LiveMessage = Extract<Request, { $case: 'sound' | 'picture' }>;
export type LiveChange = Extract<Request, { $case: 'change' }>['value'];

/** One session of a scripted sidecar. */
export interface ScriptedSession {
  readonly open: OpenRequest;
  readonly received: LiveMessage[];
  readonly changes: LiveChange[];
  answer(response: Response | undefined): void;
  /** Ends the call with a status; default: OK. */
  end(code?: status): void;
}

export interface ScriptedLive {
  readonly info?: Partial<GetInfoResponse>;
  /** What Open answers; 'never', or a status. */
  readonly opens?: (request: OpenRequest) => OpenResponse | 'never' | status;
  /** Called with each change; default: it is answered with a note that names what it has. */
  readonly changes?: (session: ScriptedSession, change: LiveChange) => void;
  /** Called with each message; default: it is sent back. */
  readonly converts?: (session: ScriptedSession, message: LiveMessage) => void;
}

/** Pictures as JPEG, with any prompt. */
export const JPEG_INFO = GetInfoResponse.fromPartial({
  name: 'scripted',
  version: '1',
  capability: 'full-live-swap',
  slots: 2,
  takesPrompt: true,
  pictures: { transports: [PictureTransport.PICTURE_TRANSPORT_JPEG], inFlight: 1 },
});

export const SOUND_INFO = GetInfoResponse.fromPartial({
  name: 'scripted',
  version: '1',
  capability: 'voice',
  slots: 2,
});

const OPENED = OpenResponse.fromPartial({ message: { $case: 'opened', value: {} } });

/** Sends a message back as it came. */
export function echo(session: ScriptedSession, message: LiveMessage): void {
  session.answer(message);
}

/** Says that a change is made, and to what. */
function change(session: ScriptedSession, { settings, inputs }: LiveChange): void {
  const note = [...Object.keys(settings), ...Object.keys(inputs)].join(' ');
  session.answer({ $case: 'changed', value: { note } });
}

/** Returns an answer of sound. */
export const soundOf = (sequence: bigint, samples: Uint8Array): Response & { value: Sound } => ({
  $case: 'sound',
  value: { sequence, samples: Buffer.from(samples) },
});

/** Starts a sidecar of live sessions on a socket that does what a test says. */
export async function startScriptedLive(socket: string, script: ScriptedLive = {}) {
  const server = new Server({ 'grpc.max_receive_message_length': 8 * 1024 * 1024 });
  const sessions = new Map<string, ScriptedSession>();
  const opened: OpenRequest[] = [];
  const state = {
    serving: true,
    /** Whether Health is answered. */
    answering: true,
    /** Whether sessions are forgotten when their calls end. */
    forgets: true,
    script,
  };

  function carry(call: ServerDuplexStream<ConvertRequest, ConvertResponse>): void {
    let session: ScriptedSession | undefined;
    const over = () => {
      if (state.forgets && session) sessions.delete(session.open.sessionId);
      if (state.forgets) call.end();
    };
    call.on('data', ({ request }: ConvertRequest) => {
      if (request?.$case === 'open') {
        const open = opened.find(({ sessionId }) => sessionId === request.value.sessionId);
        if (!open) return void call.emit('error', { code: status.NOT_FOUND, details: 'none' });
        session = {
          open,
          received: [],
          changes: [],
          answer: (response) => void call.write({ response }),
          end: (code) => (code ? call.emit('error', { code, details: 'as asked' }) : call.end()),
        };
        sessions.set(open.sessionId, session);
      } else if (!request || !session) return;
      else if (request.$case === 'change') {
        session.changes.push(request.value);
        (state.script.changes ?? change)(session, request.value);
      } else {
        session.received.push(request);
        (state.script.converts ?? echo)(session, request);
      }
    });
    call.on('end', over);
    call.on('cancelled', over);
    call.on('error', () => {});
  }

  server.addService(LiveEngineServiceService, {
    getInfo: (_call: unknown, answer: (error: null, value: GetInfoResponse) => void) =>
      answer(null, { ...JPEG_INFO, ...state.script.info }),
    warmUp: (_call: unknown, answer: (error: null, value: object) => void) => answer(null, {}),
    health(_call: unknown, answer: (error: null, value: object) => void) {
      if (state.answering) answer(null, { serving: state.serving, sessions: [...sessions.keys()] });
    },
    open(call: { request: OpenRequest }, answer: (error: object | null, value?: OpenResponse) => void) {
      opened.push(call.request);
      const said = state.script.opens?.(call.request) ?? OPENED;
      if (said === 'never') return;
      if (typeof said === 'number') answer({ code: said, details: 'as asked' });
      else answer(null, said);
    },
    convert: carry,
  } as never);
  await new Promise<void>((resolve, reject) =>
    server.bindAsync(`unix:${socket}`, ServerCredentials.createInsecure(), (error) =>
      error ? reject(error) : resolve(),
    ),
  );
  return {
    state,
    sessions,
    opened,
    /** Returns the session that was begun last. */
    newest: () => [...sessions.values()].at(-1),
    /** Cuts every connection, as a killed process would. */
    kill() {
      server.forceShutdown();
      return rm(socket, { force: true });
    },
  };
}
