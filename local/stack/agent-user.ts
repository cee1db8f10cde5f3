import { spawnSync } from 'node:child_process';
import { chmodSync, statSync } from 'node:fs';
import { chmod, copyFile, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { KubeConfig } from '@kubernetes/client-node';
import { ensureOwner, NOBODY, RootRefusedError } from '../unprivileged.ts';

/** Account of a process, which has no rights of root. */
export interface AgentUser {
  readonly uid: number;
  readonly gid: number;
}

export interface AgentUserOptions {
  readonly stateDir: string;
  /** Folder of the agent's work. */
  readonly workDir: string;
  /** Program of the agent. */
  readonly main: string;
}

/** Reads the program and writes into the folder of its work, as the agent would. */
const TRIAL = `
const fs = require('node:fs');
fs.readFileSync(process.argv[1]);
fs.writeFileSync(process.argv[2] + '/.trial', '');
fs.rmSync(process.argv[2] + '/.trial');
process.exit(process.getuid() === 0 ? 1 : 0);`;

/**
 * Returns the account that the agent runs as when root starts the stack, since it decodes files of strangers; undefined
 * for an ordinary user. The folder of its work then belongs to that account, and the folder of the stack lets others
 * through, not in.
 * @throws RootRefusedError when that account cannot run the agent
 */
export async function agentUser({
  stateDir,
  workDir,
  main,
}: AgentUserOptions): Promise<AgentUser | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  const user = { uid: NOBODY, gid: NOBODY };
  await mkdir(workDir, { recursive: true, mode: 0o700 });
  await ensureOwner(workDir, NOBODY);
  chmodSync(stateDir, (statSync(stateDir).mode & 0o777) | 0o011);
  const tried = spawnSync(process.execPath, ['-e', TRIAL, main, workDir], {
    ...user,
    cwd: '/',
    encoding: 'utf8',
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  if (tried.status === 0) return user;
  const why = tried.error?.message ?? /^\w*Error: .*$/m.exec(tried.stderr)?.[0] ?? 'it failed';
  throw new RootRefusedError(
    `The agent decodes files of strangers, so it does not run as root, and as the account "nobody" it cannot: ${why}. ` +
      'Start this as an ordinary user, or from a folder that others may enter and read.',
  );
}

/** Files that the agent needs and that are closed to others, by the variable that names them. */
export interface LentFiles {
  readonly KUBECONFIG: string;
  readonly SEMBLANCE_PROVENANCE_CERTIFICATE?: string | undefined;
  readonly SEMBLANCE_PROVENANCE_KEY?: string | undefined;
  readonly SEMBLANCE_TLS_DIR?: string | undefined;
}

/**
 * Copies files into a folder that only the account may enter, beside the folder of its work.
 * @returns the variables with their copies, and a home
 */
export async function lend(
  { stateDir }: Pick<AgentUserOptions, 'stateDir'>,
  { uid }: AgentUser,
  files: LentFiles,
): Promise<Record<string, string>> {
  const folder = join(stateDir, 'agent-files');
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { mode: 0o700 });
  const env: Record<string, string> = { HOME: folder, KUBECONFIG: join(folder, 'kubeconfig') };
  await writeFile(env.KUBECONFIG as string, await wholeKubeconfig(files.KUBECONFIG), { mode: 0o600 });
  for (const [variable, name] of [
    ['SEMBLANCE_PROVENANCE_CERTIFICATE', 'signer.pem'],
    ['SEMBLANCE_PROVENANCE_KEY', 'signer-key.pem'],
  ] as const) {
    const from = files[variable];
    if (!from) continue;
    env[variable] = join(folder, name);
    await copyFile(from, env[variable]);
    await chmod(env[variable], 0o600);
  }
  if (files.SEMBLANCE_TLS_DIR) {
    env.SEMBLANCE_TLS_DIR = join(folder, 'tls');
    await mkdir(env.SEMBLANCE_TLS_DIR);
    // The agent makes its certificate itself.
    await copyFile(join(files.SEMBLANCE_TLS_DIR, 'ca.crt'), join(env.SEMBLANCE_TLS_DIR, 'ca.crt'));
  }
  await ensureOwner(folder, uid);
  return env;
}

/** Returns a kubeconfig with the contents of the files that it names. */
async function wholeKubeconfig(file: string): Promise<string> {
  const config = new KubeConfig();
  config.loadFromFile(file);
  const content = async (path: string) => (await readFile(path)).toString('base64');
  config.clusters = await Promise.all(
    config.clusters.map(async ({ caFile, ...cluster }) =>
      caFile ? { ...cluster, caData: await content(caFile) } : cluster,
    ),
  );
  config.users = await Promise.all(
    config.users.map(async ({ certFile, keyFile, ...user }) => ({
      ...user,
      ...(certFile ? { certData: await content(certFile) } : {}),
      ...(keyFile ? { keyData: await content(keyFile) } : {}),
    })),
  );
  return config.exportConfig();
}
