import { readFileSync } from 'node:fs';
import { rename, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { holderOf, isLocked } from '../process/lock.ts';

/** Holds what `stack.json` says about a stack, for scripts and tests. Its fields are fixed. */
export type StackHandle = {
  /** Of the API, version included: `http://127.0.0.1:8080/api/v1`. */
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

/** Folder of all that a stack keeps: `SEMBLANCE_STATE_DIR`, else `.semblance` where the command is given. */
export function stateFolder(env: NodeJS.ProcessEnv): string {
  return resolve(env.SEMBLANCE_STATE_DIR || '.semblance');
}

export const handleFile = (stateDir: string) => join(stateDir, 'stack.json');
/**
 * Returns where the admin command finds the control plane: `{control_address}`, `host:port`, and with TLS `tls_dir`.
 */
export const controlFile = (stateDir: string) => join(stateDir, 'control.json');
export const lockFile = (stateDir: string) => join(stateDir, 'stack.lock');

/** Replaces the handle in one step; only its owner may read it, for it holds keys. */
export async function writeHandle(stateDir: string, handle: StackHandle): Promise<void> {
  const file = handleFile(stateDir);
  await writeFile(`${file}.unfinished`, `${JSON.stringify(handle, undefined, 2)}\n`, { mode: 0o600 });
  await rename(`${file}.unfinished`, file);
}

export async function removeHandle(stateDir: string): Promise<void> {
  await rm(handleFile(stateDir), { force: true });
}

/**
 * The stack that runs in a folder: undefined when none does, `starting` when one does that is not ready yet. A handle
 * that was left behind by a stack that died is not taken for one.
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
