import { describeError } from '@semblance/common/errors';
import { RenderError } from '@semblance/engine-api/engine';
import type { Looker } from './looker.ts';
import type { FromLooker, LookerAnswer, ToLooker } from './protocol.ts';

/** Shortest interval between two step messages, in ms. */
const STEP_MS = 500;

/**
 * Makes this process one that opens callers' files for its agent, and ends with it. A file that crashes a decoder ends
 * this process and not the agent.
 * @param create makes the work, from the options that the agent passed as JSON
 */
export function serveLooker<Options>(create: (options: Options) => Looker): void {
  const looker = create(JSON.parse(process.argv[2] ?? '') as Options);
  const running = new Map<number, AbortController>();

  // The agent handles signals to its process group, and then closes the channel.
  process.on('SIGTERM', () => {});
  process.on('SIGINT', () => {});
  process.on('disconnect', () => {
    for (const controller of running.values()) controller.abort();
    void looker.close().finally(() => process.exit(0));
  });

  process.on('message', (message: ToLooker) => {
    if (message.type === 'cancel') running.get(message.id)?.abort(new Error('cancelled'));
    else void look(looker, running, message);
  });
}

async function look(
  looker: Looker,
  running: Map<number, AbortController>,
  { id, ...looked }: Extract<ToLooker, { type: 'look' }>,
): Promise<void> {
  const controller = new AbortController();
  running.set(id, controller);
  let answer: LookerAnswer;
  let lastStepAt = 0;
  const onStep = () => {
    const now = performance.now();
    if (now - lastStepAt < STEP_MS) return;
    lastStepAt = now;
    say({ type: 'looking', id });
  };
  try {
    const found = await looker.find(looked, controller.signal, onStep);
    answer = found ? { found: found.role } : {};
  } catch (error) {
    answer =
      error instanceof RenderError
        ? { refused: { code: error.code, message: error.message } }
        : { failed: describeError(error) };
  }
  running.delete(id);
  say({ type: 'answer', id, ...answer });
}

function say(message: FromLooker): void {
  if (process.connected) process.send?.(message, undefined, undefined, () => {});
}
