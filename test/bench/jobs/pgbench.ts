import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { findOnPath } from '@semblance/common/process/find-on-path';

/**
 * Returns the path of a working pgbench. Debian's client packages put a wrapper on PATH that needs the server's
 * package.
 */
export async function findPgbench(): Promise<string | undefined> {
  const tool = findOnPath('pgbench', process.env.PATH);
  if (!tool) return undefined;
  return promisify(execFile)(tool, ['--version']).then(
    () => tool,
    () => undefined,
  );
}

/**
 * Runs a pgbench script and returns its transactions per second, without the time to connect.
 *
 * @param options.transactions number in all, shared among the clients
 * @throws Error when pgbench or any transaction fails
 */
export async function pgbench(options: {
  tool: string;
  url: string;
  script: string;
  clients: number;
  transactions: number;
}): Promise<number> {
  const { tool, url, script, clients, transactions } = options;
  const each = Math.ceil(transactions / clients);
  const threads = Math.min(2, clients);
  const args = [
    '-n',
    '-M',
    'prepared',
    '-f',
    script,
    '-c',
    `${clients}`,
    '-j',
    `${threads}`,
    '-t',
    `${each}`,
    url,
  ];
  const { stdout, stderr } = await promisify(execFile)(tool, args, { timeout: 300_000 });
  const said = stdout + stderr;
  const done = /transactions actually processed: (\d+)\/(\d+)/.exec(said);
  const rate = /tps = ([\d.]+)/.exec(said);
  if (!done || !rate || done[1] !== done[2]) throw new Error(`pgbench did not do all of its work:\n${said}`);
  return Number(rate[1]);
}
