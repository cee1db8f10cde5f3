import { setTimeout as delay } from 'node:timers/promises';
import type { LiveEngine, LiveMedia } from '@semblance/engine-api/live-engine';
import { createFlowPump } from '../../live/relay/flow-pump.ts';
import { createPump, type PumpOptions } from '../../live/relay/pump.ts';

export interface Answer {
  readonly sequence: bigint;
  readonly data: Uint8Array;
}

/** One session of an engine, with a client that sends and hears. */
export interface Talk {
  readonly media: LiveMedia;
  readonly answers: readonly Answer[];
  /** Numbers of the messages that could not be read. */
  readonly unreadable: readonly bigint[];
  /** Why the session cannot go on; undefined while it can. */
  readonly failure: unknown;
  /** Sends a message as soon as the engine lets it. @returns its number */
  send(message: Uint8Array): Promise<bigint>;
  /** Waits until this holds, or the session has failed. @throws Error in the end */
  until(holds: () => boolean, what: string): Promise<void>;
  close(): Promise<void>;
}

export interface TalkOptions {
  readonly engine: LiveEngine;
  readonly settings: Readonly<Record<string, string>>;
  /** Longest wait for an answer, in ms. */
  readonly answerMs: number;
}

/** Opens a session, and passes its media as the relay of an agent does. */
export async function openTalk({ engine, settings, answerMs }: TalkOptions): Promise<Talk> {
  const ending = new AbortController();
  const answers: Answer[] = [];
  const unreadable: bigint[] = [];
  let failure: unknown;
  let paused = false;
  let sequence = 0n;
  const onFailed = (error: unknown) => {
    failure ??= error;
  };
  const media = await engine.open({ settings, inputs: {}, signal: ending.signal, onFailed });
  const options: PumpOptions = {
    delivery: engine.delivery,
    maxMessageBytes: media.maxMessageBytes,
    async send(number, data) {
      answers.push({ sequence: number, data });
    },
    async refuse(number) {
      unreadable.push(number);
    },
    pause() {
      paused = true;
    },
    resume() {
      paused = false;
    },
    onReceived() {},
    onDropped() {},
    onConverted() {},
    onFailed,
  };
  const pump = 'transform' in media ? createPump(media, options) : createFlowPump(media, options);

  async function until(holds: () => boolean, what: string): Promise<void> {
    const end = performance.now() + answerMs;
    while (!holds()) {
      if (failure !== undefined) throw new Error(`the session failed before ${what}`, { cause: failure });
      if (performance.now() > end) throw new Error(`within ${answerMs / 1_000} s there was not ${what}`);
      await delay(5);
    }
  }
  return {
    media,
    answers,
    unreadable,
    get failure() {
      return failure;
    },
    async send(message) {
      await until(() => !paused, 'room for a message');
      pump.push(++sequence, message);
      return sequence;
    },
    until,
    async close() {
      pump.stop();
      ending.abort(new Error('the session ended'));
      await media.close();
    },
  };
}
