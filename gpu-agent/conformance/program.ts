import { type ChildProcess, spawn } from 'node:child_process';

/**
 * Starts a sidecar as a separate process with SEMBLANCE_SIDECAR_SOCKET set.
 *
 * @param options.gid group whose members may use its socket; default: that of this process
 */
export function startProgram(
  [file = '', ...args]: readonly string[],
  socket: string,
  options: { readonly gid?: number } = {},
) {
  const child: ChildProcess = spawn(file, args, {
    env: { ...process.env, SEMBLANCE_SIDECAR_SOCKET: socket },
    stdio: ['ignore', 'inherit', 'inherit'],
    ...options,
  });
  let ended = false;
  const over = new Promise<string>((resolve) => {
    child.once('error', (error) => resolve(error.message));
    child.once('exit', (code, by) => resolve(`the sidecar ended (${by ?? `status ${code}`})`));
  }).finally(() => {
    ended = true;
  });
  const died = over.then((reason) => Promise.reject(new Error(reason)));
  died.catch(() => {});
  return {
    died,
    kill: () => void child.kill('SIGKILL'),
    async end() {
      if (ended) return;
      child.kill('SIGTERM');
      const timer = setTimeout(() => child.kill('SIGKILL'), 5_000);
      await over;
      clearTimeout(timer);
    },
  };
}
