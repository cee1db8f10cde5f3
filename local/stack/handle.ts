import { readFileSync } from 'node:fs';
import { rename, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { holderOf, isLocked } from '../process/lock.ts';

/** Content of `stack.json`, for scripts and tests. Its fields are fixed. */
export type StackHandle = {
  /** URL of the API, version included: `http://127.0.0.1:8080/api/v1`. */
  base_url: string;
  api_key: string;
  account_id: string;
  admin_token: string;
  namespace: string;
  /** Path of a kubeconfig. */
  kubeconfig: string;
  postgres_url: string;
  nats_url: string;
  /** Pid of the latest process of each service that this stack runs itself. */
  services: Record<string, number>;
};

/**
 * Returns the folder in which a stack stores everything: `SEMBLANCE_STATE_DIR`, or `.semblance` in the current
 * folder.
 */
export function stateFolder(env: NodeJS.ProcessEnv): string {
  return resolve(env.SEMBLANCE_STATE_DIR || '.semblance');
}

export const handleFile = (stateDir: string) => join(stateDir, 'stack.json');
/**
 * Returns the file by which the admin command finds the control plane: `{control_address}`, `host:port`, and with
 * TLS `tls_dir`.
 */
export const controlFile = (stateDir: string) => join(stateDir, 'control.json');
export const lockFile = (stateDir: string) => join(stateDir, 'stack.lock');

/** Replaces the handle atomically. Only its owner may read it, because it contains keys. */
export async function writeHandle(stateDir: string, handle: StackHandle): Promise<void> {
  const file = handleFile(stateDir);
  await writeFile(`${file}.unfinished`, `${JSON.stringify(handle, undefined, 2)}\n`, { mode: 0o600 });
  await rename(`${file}.unfinished`, file);
}

export async function removeHandle(stateDir: string): Promise<void> {
  await rm(handleFile(stateDir), { force: true });
}

/**
 * Returns the stack that runs in a folder: undefined when there is none, `starting` while it is not ready. The
 * handle that a dead stack left is ignored.
 */
export function findRunning(
  stateDir: string,
): { state: 'ready'; handle: StackHandle } | { state: 'starting'; pid?: number } | undefined {
  if (!isLocked(lockFile(stateDir))) return undefined;
  try {
    return { state: 'ready', handle: JSON.parse(readFileSync(handleFile(stateDir), 'utf8')) as StackHandle };
  } catch {
    return { state: 'starting', pid: holderOf(lockFile(stateDir)) };
  }
}
