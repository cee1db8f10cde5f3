/**
 * Main module of the process that opens what callers sent and compares it with the hash list: a file that brings a
 * decoder down ends this process, not the agent. Its argument is LookerOptions as JSON; it ends with the agent.
 */
import { describeError } from '#common/errors.ts';
import { RenderError } from '../../engines/engine.ts';
import { createLooker, type LookerOptions } from './looker.ts';
import type { FromLooker, ToLooker } from './protocol.ts';

const looker = createLooker(JSON.parse(process.argv[2] ?? '') as LookerOptions);
const running = new Map<number, AbortController>();

// Signals meant for the agent's process group are left to the agent, which closes the channel.
process.on('SIGTERM', () => {});
process.on('SIGINT', () => {});
process.on('disconnect', () => {
  for (const controller of running.values()) controller.abort();
  void looker.close().finally(() => process.exit(0));
});

process.on('message', (message: ToLooker) => {
  if (message.type === 'cancel') running.get(message.id)?.abort(new Error('cancelled'));
  else void look(message);
});

async function look({ id, files }: Extract<ToLooker, { type: 'look' }>): Promise<void> {
  const controller = new AbortController();
  running.set(id, controller);
  let answer: FromLooker;
  try {
    const found = await looker.find(files, controller.signal);
    answer = { id, ...(found ? { found: found.role } : {}) };
  } catch (error) {
    answer =
      error instanceof RenderError
        ? { id, refused: { code: error.code, message: error.message } }
        : { id, failed: describeError(error) };
  }
  running.delete(id);
  if (process.connected) process.send?.(answer, undefined, undefined, () => {});
}
