import { join } from 'node:path';
import { call } from '@semblance/common/grpc/client';
import {
  type LiveEngineServiceClient,
  OpenRequest,
  PictureTransport,
} from '@semblance/proto/semblance/engine/live/v1/live_engine';
import type { Exchange, ExchangeDir } from '../exchange.ts';
import { asRenderFault } from '../render-call.ts';
import { checkedOpening, type LiveSidecarInfo, type OpenedSession } from './live-answers.ts';
import { createLiveCall, type LiveCall, type LiveCallTimes } from './live-call.ts';
import { createSharedPictures, type SharedPictures } from './shared-pictures.ts';

/** Places that may still be in use, for answers that are read, while as many pictures as allowed are unanswered. */
const PLACES_READ = 3;
/** Sound that may be unanswered, in ms. It is below what a gateway lets be unanswered. */
const MOST_SOUND_MS = 1_500;

const TRANSPORTS = {
  jpeg: PictureTransport.PICTURE_TRANSPORT_JPEG,
  'shared-rgb': PictureTransport.PICTURE_TRANSPORT_SHARED_RGB,
} as const;

export interface OpenSession {
  readonly settings: Readonly<Record<string, string>>;
  readonly inputs: Readonly<Record<string, string>>;
  /** Sound: rate of the client, in Hz. */
  readonly sampleRate?: number;
  readonly signal: AbortSignal;
}

export interface SidecarSession extends OpenedSession {
  readonly call: LiveCall;
  /** Set for the form `shared-rgb`. */
  readonly shared: SharedPictures | undefined;
  /**
   * Changes settings and inputs of the session, one time after the other; the inputs are read until it resolves. Returns the
   * engine's note. Undefined: the engine cannot.
   * @throws LiveRefusal; any other error has failed the session
   */
  readonly change: ((to: Pick<OpenSession, 'settings' | 'inputs'>) => Promise<string>) | undefined;
  /** Ends the session, and removes its files. Idempotent. */
  end(): Promise<void>;
}

export interface SessionTimes extends Omit<LiveCallTimes, 'changeMs'> {
  /** Time for the engine to open a session, or to change it, in ms. */
  readonly openMs: number;
}

export interface OpenSessionOptions {
  readonly client: LiveEngineServiceClient;
  readonly exchange: Exchange;
  /** The shared folder: that of the socket. */
  readonly folder: string;
  readonly info: LiveSidecarInfo;
  readonly mostPixels: number;
  readonly times: SessionTimes;
  /** Aborted when the connection is closed. */
  readonly closing: AbortSignal;
  /** Called when its media can flow. */
  readonly onBegun: (call: LiveCall) => void;
  /** Called once, when it holds nothing any more. */
  readonly onEnd: () => void;
}

/** @throws as LiveSidecar.open; then nothing is held any more */
export async function openSession(
  sessionId: string,
  session: OpenSession,
  options: OpenSessionOptions,
): Promise<SidecarSession> {
  const { exchange, info, closing, onBegun, onEnd } = options;
  const signal = AbortSignal.any([session.signal, closing]);
  let dir: ExchangeDir | undefined;
  let shared: SharedPictures | undefined;
  let begun: LiveCall | undefined;
  let ended: Promise<void> | undefined;
  const end = () =>
    (ended ??= (async () => {
      await begun?.end();
      await shared?.close();
      await dir?.remove();
      onEnd();
    })());
  try {
    signal.throwIfAborted();
    dir = await exchange.open(sessionId, session.inputs);
    if (info.pictures?.form === 'shared-rgb') shared = await sharedIn(dir, options);
    signal.throwIfAborted();
    const opened = await ask(sessionId, session, options, { dir, shared });
    begun = createLiveCall(options.client.convert(), {
      ...options.times,
      changeMs: options.times.openMs,
      sessionId,
      kind: info.pictures ? 'picture' : 'sound',
      mostUnanswered: info.pictures?.inFlight ?? MOST_SOUND_MS,
    });
    onBegun(begun);
    const change = info.takesChanges ? changer(begun, dir) : undefined;
    // The engine has a place for it now, which is free when `end` has resolved.
    signal.throwIfAborted();
    return { ...opened, call: begun, shared, change, end };
  } catch (error) {
    await end();
    signal.throwIfAborted();
    throw isOwn(error) ? error : asRenderFault(error);
  }
}

function changer(call: LiveCall, dir: ExchangeDir): NonNullable<SidecarSession['change']> {
  return async ({ settings, inputs }) => {
    const copied = await dir.replace(inputs);
    return call.change({ settings: { ...settings }, inputs: { ...copied } });
  };
}

const fileIn = (dir: ExchangeDir) => `${dir.output}/pictures`;

function sharedIn(dir: ExchangeDir, { folder, info, mostPixels }: OpenSessionOptions) {
  const places = (info.pictures?.inFlight ?? 0) + PLACES_READ;
  return createSharedPictures(join(folder, fileIn(dir)), places, mostPixels * 3);
}

/** Asks the engine to open the session. It waits for the answer even if nobody needs it any more. */
async function ask(
  sessionId: string,
  { settings, sampleRate = 0 }: OpenSession,
  { client, info, times, closing }: OpenSessionOptions,
  { dir, shared }: { readonly dir: ExchangeDir; readonly shared: SharedPictures | undefined },
): Promise<OpenedSession> {
  const request = OpenRequest.fromPartial({
    sessionId,
    settings: { ...settings },
    inputs: { ...dir.inputs },
    sampleRate,
    ...(info.pictures && { transport: TRANSPORTS[info.pictures.form] }),
    ...(shared && {
      shared: { file: fileIn(dir), slots: shared.slots, pictureBytes: shared.pictureBytes },
    }),
  });
  const asked = { timeoutMs: times.openMs, signal: closing };
  return checkedOpening(await call(client.open.bind(client), request, asked), sampleRate);
}

/** Tells whether an error says already what is wrong. */
function isOwn(error: unknown): boolean {
  return error instanceof Error && 'retryable' in error;
}
