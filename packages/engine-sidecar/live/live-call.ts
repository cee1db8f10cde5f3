import type { ClientDuplexStream, StatusObject } from '@grpc/grpc-js';
import { Standstill } from '@semblance/common/standstill';
import { EngineInterruptedError } from '@semblance/engine-api/engine';
import type {
  Change,
  ConvertRequest,
  ConvertResponse,
  Picture,
} from '@semblance/proto/semblance/engine/live/v1/live_engine';
import { broken } from '../contract-error.ts';
import { asRenderFault } from '../render-call.ts';
import { checkedChange, LiveRefusal } from './live-answers.ts';

/** Most answers for each picture that was sent, on average. */
const MOST_PICTURES = 8;

/** What the engine answers. */
export interface LiveCallListener {
  /** Every message up to `sequence` is done. Comes before what was made of them. */
  answered(sequence: bigint): void;
  sound(sequence: bigint, samples: Uint8Array): void;
  picture(sequence: bigint, data: NonNullable<Picture['data']>): void;
  unreadable(sequence: bigint): void;
  /** The call cannot go on. Called at most once, as the last call. */
  failed(error: Error): void;
}

export interface LiveCallTimes {
  /** Time without an answer after which an engine that must answer counts as hung, in ms. */
  readonly hungMs: number;
  /** Time for the engine to answer a change, in ms. */
  readonly changeMs: number;
  /** Time for the engine to end the call after the agent has, in ms. */
  readonly endMs: number;
}

export interface LiveCallOptions extends LiveCallTimes {
  readonly sessionId: string;
  readonly kind: 'sound' | 'picture';
  /** Unanswered units, pictures or milliseconds of sound, from which nothing is sent. */
  readonly mostUnanswered: number;
}

/** The stream of one session's media to its engine and back. */
export interface LiveCall {
  /** Must be called once; nothing is read before. */
  listen(listener: LiveCallListener): void;
  /** Whether a message may be sent. */
  readonly hasRoom: boolean;
  /** @param units of the message: 1 for a picture, its milliseconds for sound */
  send(request: NonNullable<ConvertRequest['request']>, sequence: bigint, units: number): void;
  /**
   * Asks for other settings and inputs, one time after the other, and returns the engine's note. A call that is over rejects.
   * @throws LiveRefusal, the reason why the call is over
   */
  change(request: Change): Promise<string>;
  /** Reads no answers until `resume`. */
  pause(): void;
  resume(): void;
  /** Fails the call; nothing if it is over. */
  fail(error: Error): void;
  /** Ends the session; resolves when the engine has ended it, or did not in time. The listener hears no more. */
  end(): Promise<void>;
}

type Call = ClientDuplexStream<ConvertRequest, ConvertResponse>;

interface Sent {
  readonly sequence: bigint;
  readonly units: number;
}

/** Begins to carry a session that was opened, and judges every answer. */
export function createLiveCall(call: Call, options: LiveCallOptions): LiveCall {
  const { sessionId, kind, mostUnanswered, hungMs, changeMs, endMs } = options;
  const unanswered: Sent[] = [];
  let units = 0;
  let lastSent = 0n;
  let lastAnswered = 0n;
  let lastRefused = 0n;
  let sentPictures = 0;
  let pictures = 0;
  let listener: LiveCallListener | undefined;
  let isOver = false;
  /** Time since which the engine owes an answer; undefined while it owes none. */
  let owesSince: number | undefined;
  let paused = false;
  /** The change that the engine has not answered, and why no other is taken. */
  let changing: PromiseWithResolvers<string> | undefined;
  let changingSince = 0;
  let overBecause: Error | undefined;
  const status = new Promise<StatusObject>((resolve) => call.once('status', resolve));
  const standstill = new Standstill(hungMs / 5);
  standstill.begin(performance.now());
  const look = setInterval(() => {
    const now = performance.now();
    if (standstill.was(now) || paused) return;
    const silent = (what: string, ms: number) =>
      fail(new EngineInterruptedError(`the sidecar has not answered ${what}for ${ms / 1_000} s`));
    if (owesSince !== undefined && now - owesSince >= hungMs) silent('', hungMs);
    else if (changing && now - changingSince >= changeMs) silent('a change ', changeMs);
  }, hungMs / 5);

  const isFull = () => units >= mostUnanswered;
  /** A picture must always be answered, sound only when no more of it is sent. */
  const owes = () => (kind === 'picture' ? unanswered.length > 0 : isFull());

  function over(why: Error): boolean {
    if (isOver) return false;
    isOver = true;
    overBecause = why;
    changing?.reject(why);
    clearInterval(look);
    return true;
  }
  function fail(error: Error): void {
    if (!over(error)) return;
    call.cancel();
    listener?.failed(error);
  }
  function answered(sequence: bigint): void {
    if (sequence > lastSent) broken(`it answered message ${sequence}, which it has not got`);
    if (sequence < lastAnswered) broken(`it answered message ${sequence} after ${lastAnswered}`);
    lastAnswered = sequence;
    let count = 0;
    for (const each of unanswered) {
      if (each.sequence > sequence) break;
      units -= each.units;
      count++;
    }
    if (count > 0) {
      unanswered.splice(0, count);
      owesSince = owes() ? performance.now() : undefined;
    }
    listener?.answered(sequence);
  }
  function acceptChange(answer: Parameters<typeof checkedChange>[0]): void {
    const asked = changing ?? broken('it answered a change that was not asked for');
    changing = undefined;
    try {
      asked.resolve(checkedChange(answer));
    } catch (error) {
      asked.reject(error);
      if (!(error instanceof LiveRefusal)) throw error;
    }
  }
  function accept({ response }: ConvertResponse): void {
    if (!response) broken('it sent an empty message');
    if (response.$case === 'changed' || response.$case === 'unchanged') {
      acceptChange(response.value);
      return;
    }
    const { sequence } = response.value;
    answered(sequence);
    if (response.$case === 'done') return;
    if (response.$case === 'unreadable') {
      // The client would be held to have sent so many that cannot be read.
      if (sequence <= lastRefused) broken(`it refused message ${sequence} twice`);
      lastRefused = sequence;
      listener?.unreadable(sequence);
    } else if (response.$case !== kind) broken(`it answered with ${response.$case}`);
    else if (response.$case === 'sound') {
      if (response.value.samples.length % 2 !== 0) broken('it answered with half a sample');
      listener?.sound(sequence, response.value.samples);
    } else {
      if (++pictures > sentPictures * MOST_PICTURES) broken('it answers with far more pictures than it gets');
      listener?.picture(sequence, response.value.data ?? broken('it answered with an empty picture'));
    }
  }

  call.on('data', (response: ConvertResponse) => {
    if (isOver) return;
    try {
      accept(response);
    } catch (error) {
      fail(error as Error);
    }
  });
  call.on('error', (error) => fail(asRenderFault(error)));
  call.on('end', () => fail(new EngineInterruptedError('the sidecar ended the session')));
  call.pause();
  call.write({ request: { $case: 'open', value: { sessionId } } });

  return {
    listen(given) {
      listener = given;
      call.resume();
    },
    get hasRoom() {
      return !isOver && !isFull();
    },
    send(request, sequence, more) {
      if (isOver) return;
      lastSent = sequence;
      if (kind === 'picture') sentPictures++;
      unanswered.push({ sequence, units: more });
      units += more;
      if (owes()) owesSince ??= performance.now();
      call.write({ request });
    },
    async change(request) {
      if (overBecause) throw overBecause;
      if (changing) throw new Error('the change before has no answer yet');
      const asked = Promise.withResolvers<string>();
      changing = asked;
      changingSince = performance.now();
      call.write({ request: { $case: 'change', value: request } });
      return asked.promise;
    },
    pause() {
      paused = true;
      call.pause();
    },
    resume() {
      paused = false;
      if (owesSince !== undefined) owesSince = performance.now();
      changingSince = performance.now();
      call.resume();
    },
    fail,
    async end() {
      if (!over(new EngineInterruptedError('the session has ended'))) return;
      call.end();
      // What still comes is discarded, so that the end is received.
      call.resume();
      const late = setTimeout(() => call.cancel(), endMs);
      await status;
      clearTimeout(late);
    },
  };
}
