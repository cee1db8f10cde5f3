/**
 * Main module of a process that follows the file names instead of looking at pictures. It speaks the protocol of
 * the hash list's process and starts at once.
 */
import { getPriority } from 'node:os';
import type { FromLooker, ToLooker } from '@semblance/gpu-agent/content-check/looker/protocol';

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
    // Runs as long as the process has other work, and then ends by itself.
    case 'long':
      if (others === 0) answer();
      else setInterval(() => say({ type: 'looking', id }), 100);
      break;
    // Reports its own nice value.
    case 'nice':
      say({ type: 'answer', id, found: String(getPriority()) });
      break;
    default:
      answer();
  }
});
