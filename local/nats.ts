import { randomBytes } from 'node:crypto';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import type { ServiceSpec } from './process/service.ts';
import { writeAtomically } from './process/write-atomically.ts';

const USER = 'semblance';

export type NatsOptions = {
  /** Absolute path of nats-server. */
  binary: string;
  /** Folder of this server alone, with its store, configuration and password. */
  dir: string;
  port: number;
  /** False only for data that may be lost when the machine (not the process) dies, as in tests. Default true. */
  durable?: boolean;
  /**
   * Number of additional accounts, isolated from each other and from the main one, with the users `u0`, `u1`, … and the password of the main one. Default 0.
   */
  accounts?: number;
};

/**
 * Describes nats-server with JetStream as a service: loopback only, with a password, every message on disk before
 * its ack.
 */
export function natsService(options: NatsOptions): ServiceSpec {
  const { binary, dir, port, durable = true } = options;
  const configuration = join(dir, 'nats.conf');
  return {
    name: 'nats',
    async launch() {
      const password = await passwordOf(dir);
      const text = natsConfiguration({
        listen: `127.0.0.1:${port}`,
        storeDir: join(dir, 'store'),
        password,
        accounts: options.accounts,
        durable,
      });
      await writeFile(configuration, text, { mode: 0o600 });
      return { command: binary, args: ['--config', configuration] };
    },
    // The server sends its greeting once it accepts clients, and JetStream is up before that.
    probe: (signal) => greeting(port, signal),
    stopSignal: 'SIGTERM',
    graceMs: 10_000,
    readyWithinMs: 60_000,
  };
}

/** Returns the server's configuration: JetStream, the main account, and any number of isolated other accounts. */
export function natsConfiguration(options: {
  listen: string;
  storeDir: string;
  password: string;
  accounts?: number;
  durable?: boolean;
}): string {
  const { listen, storeDir, password, accounts = 0, durable = true } = options;
  const lines = [
    'server_name: semblance-local',
    `listen: "${listen}"`,
    `jetstream { store_dir: ${JSON.stringify(storeDir)}, max_memory_store: 64MB, max_file_store: 4GB${durable ? ', sync_interval: always' : ''} }`,
    'accounts {',
    `  main { jetstream: enabled, users: [{ user: ${USER}, password: "${password}" }] }`,
    ...Array.from(
      { length: accounts },
      (_, i) => `  a${i} { jetstream: enabled, users: [{ user: u${i}, password: "${password}" }] }`,
    ),
    '}',
    'max_payload: 1MB',
    // The server is told to end when no client needs it any more, so a longer drain would only delay the end.
    'lame_duck_grace_period: 1s',
    'lame_duck_duration: 30s',
  ];
  return `${lines.join('\n')}\n`;
}

/** Returns the URL of the server in `dir`, password included. */
export async function natsUrl(dir: string, port: number): Promise<string> {
  return `nats://${USER}:${await passwordOf(dir)}@127.0.0.1:${port}`;
}

async function passwordOf(dir: string): Promise<string> {
  const file = join(dir, 'password');
  try {
    const password = (await readFile(file, 'utf8')).trim();
    // An empty file contains no password.
    if (password) return password;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
  await mkdir(dir, { recursive: true });
  // The password begins with a letter, because the configuration language reads a bare number as a number.
  const password = `p${randomBytes(24).toString('hex')}`;
  await writeAtomically(file, `${password}\n`);
  return password;
}

function greeting(port: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1' });
    const fail = (error: Error) => {
      socket.destroy();
      reject(error);
    };
    signal.addEventListener('abort', () => fail(signal.reason as Error), { once: true });
    socket.once('error', fail);
    socket.once('end', () => fail(new Error('closed without a greeting')));
    socket.once('data', (data) => {
      if (!data.toString('latin1').startsWith('INFO ')) return fail(new Error('not a NATS server'));
      socket.destroy();
      resolve();
    });
  });
}
