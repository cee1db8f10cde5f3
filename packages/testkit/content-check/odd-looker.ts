/**
 * Main module of a process that looks at nothing and does what the names of files say. It keeps to the protocol of the
 * process of the hash list, and needs no time to start.
 */
import { getPriority } from 'node:os';
import type { FromLooker, ToLooker } from '@semblance/gpu-agent/content-check/hash-list/protocol';

let asked = 0;
const say = (message: FromLooker) =>
  process.connected && process.send?.(message, undefined, undefined, () => {});

process.on('disconnect', () => process.exit(0));
process.on('message', (message: ToLooker) => {
  if (message.type !== 'look') return;
  const { id, files } = message;
  const others = asked++;
  const answer = () => say({ type: 'answer', id });
  switch (files[0]?.role) {
    case 'fatal':
      setTimeout(() => process.kill(process.pid, 'SIGSEGV'), 200);
      break;
    case 'endless':
      break;
    // Goes on as long as the process has other things to do, and is done at once by itself.
    case 'long':
      if (others === 0) answer();
      else setInterval(() => say({ type: 'looking', id }), 100);
      break;
    // Finds its own nice value.
    case 'nice':
      say({ type: 'answer', id, found: String(getPriority()) });
      break;
    default:
      answer();
  }
});
