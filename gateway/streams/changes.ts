import { ApiError } from '@semblance/common/errors';
import type {
  ChangeSessionRequest,
  ChangeSessionResponse,
} from '@semblance/proto/semblance/control/v1/control';
import { z } from 'zod';
import { faultsOf } from '../http/faults.ts';
import { promptOfSession, voiceIdOfSession } from '../sessions/session-schemas.ts';
import { Allowance } from './allowance.ts';
import type { Ending } from './endings.ts';

/** What a change may name. */
const CHANGEABLE = ['prompt', 'voice_profile_id'] as const;
type Changeable = (typeof CHANGEABLE)[number];

/** Longest text frame of a client, in bytes: 2,000 characters as JSON may write them, and the rest of the message. */
export const MAX_TEXT_BYTES = 32 * 1024;
/** One change in 2 s, and five at the start or after a silence. */
const CHANGES = { perMs: 1 / 2_000, start: 5, most: 5 };
/** Text frames, also refused ones, because each is answered. */
const TEXTS = { perMs: 1 / 1_000, start: 60, most: 60 };

/** Calls the control plane. @throws ApiError */
export type AskForChange = (
  to: ChangeSessionRequest['to'],
  signal: AbortSignal,
) => Promise<ChangeSessionResponse>;

export interface ChangesOptions {
  /** What the agent can change of this session. */
  readonly changeable: readonly string[];
  readonly ask: AskForChange;
  /** Sends a text frame to the client. */
  readonly send: (text: string) => void;
  /** Called with each answered change: `changed`, or the code of its refusal. */
  readonly onAnswered: (outcome: string) => void;
}

/** The text frames of a client that asked to change its session in the middle. */
export interface Changes {
  /** Tells the client what it can change. */
  begin(): void;
  /** Handles a text frame. Returns the ending of a client that sends too many. */
  receive(frame: Buffer, now: number): Ending | undefined;
  /** Must be called at the end: an answer that still comes is discarded. */
  stop(): void;
}

const FRAME_FAULT = 'A text frame is a JSON object with `type` "change"';
const id = z.string('must be a string').max(64, 'must be at most 64 characters').optional();
const schemas: Readonly<Record<Changeable, z.ZodObject>> = {
  prompt: z.object({ prompt: promptOfSession }, FRAME_FAULT),
  voice_profile_id: z.object({ voice_profile_id: voiceIdOfSession }, FRAME_FAULT),
};

class Refusal extends Error {
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

export function createChanges(options: ChangesOptions): Changes {
  const { ask, onAnswered } = options;
  const changeable = CHANGEABLE.filter((name) => options.changeable.includes(name));
  const changes = new Allowance(CHANGES);
  const texts = new Allowance(TEXTS);
  const ending = new AbortController();
  let changing = false;

  const send = (message: object) => {
    if (!ending.signal.aborted) options.send(JSON.stringify(message));
  };

  /** @throws Refusal */
  function read(body: unknown): ChangeSessionRequest['to'] {
    const [name] = changeable;
    if (!name) throw new Refusal('capability_unavailable', 'What converts this session cannot change it.');
    const { data, error } = schemas[name].safeParse(body);
    if (error) throw new Refusal('invalid_input', faultsOf(error.issues, body));
    const value = String(data[name]);
    return name === 'prompt' ? { $case: 'prompt', value } : { $case: 'voiceId', value };
  }

  async function change(to: ChangeSessionRequest['to'], echo: object): Promise<void> {
    changing = true;
    try {
      const { outcome } = await ask(to, ending.signal);
      if (outcome?.$case === 'refused') throw new Refusal(outcome.value.code, outcome.value.message);
      const note = outcome?.value.note;
      onAnswered('changed');
      send({ type: 'changed', ...echo, ...(note ? { note } : {}) });
    } catch (error) {
      if (!ending.signal.aborted) refuse(asRefusal(error), echo);
    } finally {
      changing = false;
    }
  }

  function refuse({ code, message }: Refusal, echo: object): void {
    onAnswered(code);
    send({ type: 'change_refused', ...echo, code, message });
  }

  return {
    begin: () => send({ type: 'changeable', fields: changeable }),
    receive(frame, now) {
      if (!texts.take(1, now)) return { name: 'too_fast', text: 'more text frames than can be answered' };
      let echo = {};
      try {
        const body = parse(frame);
        echo = echoOf(body);
        const to = read(body);
        if (changing) throw new Refusal('rate_limited', 'The change before is still under way.');
        if (!changes.take(1, now))
          throw new Refusal('rate_limited', 'A session may be changed once in 2 seconds.');
        void change(to, echo);
      } catch (error) {
        refuse(asRefusal(error), echo);
      }
      return undefined;
    },
    stop: () => ending.abort(new Error('the stream ended')),
  };
}

/** @throws Refusal */
function parse(frame: Buffer): Record<string, unknown> {
  if (frame.length > MAX_TEXT_BYTES)
    throw new Refusal('invalid_input', `A text frame has at most ${MAX_TEXT_BYTES} bytes.`);
  let body: unknown;
  try {
    body = JSON.parse(frame.toString());
  } catch {
    throw new Refusal('invalid_input', `${FRAME_FAULT}.`);
  }
  const isObject = typeof body === 'object' && body !== null && !Array.isArray(body);
  if (!isObject || (body as { type?: unknown }).type !== 'change')
    throw new Refusal('invalid_input', `${FRAME_FAULT}.`);
  return body as Record<string, unknown>;
}

/** Returns the client's own id of a change, which its answer repeats. @throws Refusal */
function echoOf(body: Record<string, unknown>): object {
  const { data, error } = id.safeParse(body.id);
  if (error) throw new Refusal('invalid_input', '`id` is a text of at most 64 characters.');
  return data === undefined ? {} : { id: data };
}

function asRefusal(error: unknown): Refusal {
  if (error instanceof Refusal) return error;
  if (error instanceof ApiError) return new Refusal(error.code, error.message);
  return new Refusal('internal_error', 'The change did not work. Try again.');
}
