import { raceAbort } from '@semblance/common/async/abort';
import type { EngineInterruptedError } from '@semblance/engine-api/engine';
import type { BuiltinSettings } from '../settings.ts';
import type { Character } from './characters.ts';
import { StreamThread, type ThreadData } from './stream-thread.ts';
import {
  type LiveLook,
  type LiveVideo,
  LiveVideoError,
  type LiveVideoStream,
  type OpenOptions,
  type TransformedPicture,
} from './types.ts';

/** Longest time of a thread's answers before it is given up, in ms. */
const LONGEST = {
  warmUp: 120_000,
  open: 30_000,
  /** An opening that is no longer wanted: the end of the session waits for it. */
  unwanted: 5_000,
  picture: 10_000,
  close: 10_000,
} as const;

export interface LiveVideoOptions {
  /** Number of streams that can be open at once. */
  readonly slots: number;
  /** Available characters by id (`loadCharacters`). Threads are warmed up with the first one's portrait. */
  readonly characters: ReadonlyMap<string, Character>;
  /** Called for every thread that ended by itself or hung. */
  readonly onCrash: (error: EngineInterruptedError) => void;
  /** Default: the default of each. */
  readonly settings?: BuiltinSettings | undefined;
  /** Entry file of the threads. */
  readonly entry?: URL;
  /** Returns what the entry file of one thread needs beside. */
  readonly threadData?: () => ThreadData;
  /** Longest time that an unwanted opening may take, in ms. */
  readonly unwantedMs?: number;
}

/** Room for one stream. */
interface Slot {
  /** Its thread, once warm. Undefined before the first warm-up, and after a thread died during warm-up. */
  ready: Promise<StreamThread> | undefined;
  thread: StreamThread | undefined;
  warm: boolean;
  /** A stream uses it, or its thread still works on one. */
  taken: boolean;
}

/**
 * Swaps faces in streams of pictures, each stream in a thread of its own. See
 * docs/reference/capabilities/live-video.md.
 */
export function createLiveVideo(options: LiveVideoOptions): LiveVideo & { readonly threadIds: number[] } {
  const { characters, onCrash } = options;
  const [first] = characters.values();
  if (!first) throw new TypeError('live video without a character');
  const entry = options.entry ?? new URL('./live-thread.ts', import.meta.url);
  const unwantedMs = options.unwantedMs ?? LONGEST.unwanted;
  const slots: Slot[] = Array.from({ length: options.slots }, () => ({
    ready: undefined,
    thread: undefined,
    warm: false,
    taken: false,
  }));
  let closed = false;

  function ready(slot: Slot): Promise<StreamThread> {
    slot.ready ??= start(slot);
    return slot.ready;
  }

  async function start(slot: Slot): Promise<StreamThread> {
    const thread = new StreamThread({
      entry,
      settings: options.settings,
      data: options.threadData?.(),
      onDeath: (error) => {
        const { warm } = slot;
        slot.ready = undefined;
        slot.thread = undefined;
        slot.warm = false;
        onCrash(error);
        // A thread that died during warm-up is not warmed up again, to avoid an endless loop. The next opening
        // tries again.
        if (warm && !closed) ready(slot).catch(() => undefined);
      },
    });
    slot.thread = thread;
    try {
      await thread.ask({ type: 'warm-up', portrait: first?.portrait as string }, LONGEST.warmUp);
    } catch (error) {
      // The thread may live on when a network could not be loaded.
      if (slot.thread === thread) {
        slot.ready = undefined;
        slot.thread = undefined;
        await thread.end();
      }
      throw error;
    }
    if (slot.thread === thread) slot.warm = true;
    return thread;
  }

  function faceOf(look: LiveLook): string | undefined {
    if (look.kind === 'own') return undefined;
    if (look.kind === 'face') return look.path;
    const character = characters.get(look.name);
    if (!character)
      throw new LiveVideoError('unknown_character', `There is no character of the name ${look.name}.`);
    return character.portrait;
  }

  async function open({ look, signal }: OpenOptions): Promise<LiveVideoStream> {
    if (closed) throw new LiveVideoError('closed', 'Live video was closed.');
    signal?.throwIfAborted();
    const face = faceOf(look);
    // A warm thread is preferred.
    const slot = slots.find(({ taken, warm }) => !taken && warm) ?? slots.find(({ taken }) => !taken);
    if (!slot) throw new LiveVideoError('no_slot', 'All streams of live video are in use.');
    slot.taken = true;
    const free = (): void => {
      slot.taken = false;
    };
    let thread: StreamThread;
    try {
      // While the thread warms up, nothing is open that would have to be closed again.
      thread = await (signal ? raceAbort(signal, ready(slot)) : ready(slot));
      await openIn(thread, face, signal);
    } catch (error) {
      free();
      throw signal?.aborted ? signal.reason : error;
    }
    const stream = new Stream({ thread, free, faceOf });
    if (signal?.aborted) {
      await stream.close();
      throw signal.reason;
    }
    const abort = () => void stream.close();
    signal?.addEventListener('abort', abort, { once: true });
    stream.onClose = () => signal?.removeEventListener('abort', abort);
    return stream;
  }

  /**
   * The call is awaited to its end even when the signal aborts, because the thread cannot take another stream
   * before.
   */
  async function openIn(
    thread: StreamThread,
    face: string | undefined,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    signal?.throwIfAborted();
    const hurry = () => thread.hurry(unwantedMs);
    signal?.addEventListener('abort', hurry, { once: true });
    try {
      await thread.ask({ type: 'open', face }, LONGEST.open);
    } finally {
      signal?.removeEventListener('abort', hurry);
    }
  }

  return {
    slots: options.slots,
    get threadIds() {
      return slots.flatMap(({ thread }) => (thread ? [thread.threadId] : []));
    },
    async warmUp(signal) {
      if (closed) throw new LiveVideoError('closed', 'Live video was closed.');
      const all = Promise.all(slots.map(ready));
      await (signal ? raceAbort(signal, all) : all);
    },
    open,
    async close() {
      closed = true;
      await Promise.all(slots.map(({ thread }) => thread?.end()));
    },
  };
}

interface StreamOptions {
  readonly thread: StreamThread;
  readonly free: () => void;
  /** Returns the picture of a look. @throws LiveVideoError `unknown_character` */
  readonly faceOf: (look: LiveLook) => string | undefined;
}

class Stream implements LiveVideoStream {
  readonly #thread: StreamThread;
  readonly #free: () => void;
  readonly #faceOf: StreamOptions['faceOf'];
  #underWay: Promise<unknown> | undefined;
  /** Settled when the face that is being prepared is there, or could not be prepared. */
  #changing: Promise<void> | undefined;
  #closing: Promise<void> | undefined;
  onClose: () => void = () => undefined;

  constructor({ thread, free, faceOf }: StreamOptions) {
    this.#thread = thread;
    this.#free = free;
    this.#faceOf = faceOf;
  }

  async transform(picture: Uint8Array): Promise<TransformedPicture> {
    if (this.#closing) throw new LiveVideoError('closed', 'The stream was closed.');
    if (this.#underWay)
      throw new LiveVideoError('busy', 'The picture before is under way: one is taken at a time.');
    // A copy, because the input may be a part of a larger buffer that is reused.
    const pending = this.#convert(new Uint8Array(picture));
    this.#underWay = pending.then(
      () => undefined,
      () => undefined,
    );
    try {
      const done = await pending;
      if (!done) throw new Error('a picture was answered without a result');
      return { ...done, picture: done.picture ?? picture };
    } finally {
      this.#underWay = undefined;
    }
  }

  async #convert(picture: Uint8Array<ArrayBuffer>) {
    await this.#changing;
    const ask = { type: 'picture', picture, ms: performance.now() } as const;
    return this.#thread.ask(ask, LONGEST.picture, [picture.buffer]);
  }

  async change(look: LiveLook): Promise<void> {
    if (this.#closing) throw new LiveVideoError('closed', 'The stream was closed.');
    if (this.#changing) throw new LiveVideoError('busy', 'The change before is under way.');
    const face = this.#faceOf(look);
    const before = this.#underWay;
    const changed = (async () => {
      await before;
      await this.#thread.ask({ type: 'change', face }, LONGEST.picture);
    })();
    this.#changing = changed.catch(() => undefined);
    try {
      await changed;
    } finally {
      this.#changing = undefined;
    }
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.onClose();
    await Promise.all([this.#underWay, this.#changing]);
    // A dead thread has no stream.
    await this.#thread.ask({ type: 'close' }, LONGEST.close).catch(() => undefined);
    this.#free();
  }
}
