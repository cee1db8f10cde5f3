import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { envtestRelease } from './download.ts';
import type { Progress } from './progress.ts';
import { resolveTools } from './toolchain.ts';
import { pinnedVersion, releasedPath } from './tools.ts';

/** The tests download from a local mirror, under the paths at which the projects publish. */
const system = `${process.platform}-${process.arch === 'x64' ? 'amd64' : process.arch}`;
const version = pinnedVersion('nats-server');
const NATS = `/github.com/nats-io/nats-server/releases/download/v${version}`;
const FILE = `nats-server-v${version}-${system}.tar.gz`;
const ENVTEST = `/github.com/kubernetes-sigs/controller-tools/releases/download/envtest-v1.36.0/envtest-v1.36.0-${system}.tar.gz`;
const INDEX = '/raw.githubusercontent.com/kubernetes-sigs/controller-tools/main/envtest-releases.yaml';

let folder: string;
let server: Server;
let env: NodeJS.ProcessEnv;
let asked: string[];
/** Content or handler of each path. */
let files: Map<string, Buffer | ((request: IncomingMessage, response: ServerResponse) => void)>;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'semblance-download-'));
  asked = [];
  files = new Map();
  server = createServer((request, response) => {
    asked.push(`${request.url}${request.headers.range ? ` ${request.headers.range}` : ''}`);
    const found = files.get(request.url ?? '');
    if (!found) return void response.writeHead(404).end();
    if (typeof found === 'function') return found(request, response);
    const from = Number(/bytes=(\d+)-/.exec(request.headers.range ?? '')?.[1] ?? 0);
    const rest = found.subarray(from);
    response.writeHead(from ? 206 : 200, { 'content-length': rest.length }).end(rest);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const mirror = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  env = {
    PATH: join(folder, 'bin'),
    SEMBLANCE_CACHE_DIR: join(folder, 'cache'),
    SEMBLANCE_TOOLCHAIN_MIRROR: mirror,
  };
});
afterEach(() => {
  server.close();
  server.closeAllConnections();
  rmSync(folder, { recursive: true, force: true });
});

/** Packs programs that print their names, as the projects pack theirs. */
function archive(inside: string, ...names: string[]): Buffer {
  const root = join(folder, 'pack');
  rmSync(root, { recursive: true, force: true });
  mkdirSync(join(root, inside), { recursive: true });
  for (const name of names)
    writeFileSync(join(root, inside, name), `#!/bin/sh\necho ${name} v2.15.0\n# ${'x'.repeat(200_000)}\n`, {
      mode: 0o755,
    });
  execFileSync('tar', ['-czf', join(folder, 'a.tar.gz'), '-C', root, inside]);
  return readFileSync(join(folder, 'a.tar.gz'));
}

const sha = (algorithm: string, bytes: Buffer) => createHash(algorithm).update(bytes).digest('hex');

function publishNats(
  bytes = archive(`nats-server-v${version}-${system}`, 'nats-server'),
  hash = sha('sha256', bytes),
): Buffer {
  files.set(`${NATS}/${FILE}`, bytes);
  files.set(`${NATS}/SHA256SUMS`, Buffer.from(`0000  other.tar.gz\n${hash}  ${FILE}\n`));
  return bytes;
}

const resolveNats = (report: (progress: Progress) => void = () => {}) =>
  resolveTools(['nats-server'], { env, report });

describe('a released program', () => {
  it('is fetched once, checked, and shown on the way', async () => {
    publishNats();
    const seen: Progress[] = [];
    const tools = await resolveNats((progress) => seen.push({ ...progress }));
    expect(tools['nats-server']).toBe(releasedPath('nats-server', env));
    expect(execFileSync(tools['nats-server'], { encoding: 'utf8' })).toBe('nats-server v2.15.0\n');
    expect(seen.at(-1)).toMatchObject({ phase: 'fetching', what: 'nats-server' });
    const before = asked.length;
    expect(await resolveNats()).toEqual(tools);
    expect(asked).toHaveLength(before);
    expect(readdirSync(join(folder, 'cache', 'toolchain')).filter((name) => name.endsWith('.gz'))).toEqual(
      [],
    );
  });

  it('comes with others in the archive of the test binaries of Kubernetes', async () => {
    const bytes = archive('controller-tools/envtest', 'kube-apiserver', 'etcd', 'kubectl');
    const index = `releases:\n  v1.36.0:\n    envtest-v1.36.0-${system}.tar.gz:\n      hash: ${sha('sha512', bytes)}\n      selfLink: https:/${ENVTEST}\n`;
    files.set(INDEX, Buffer.from(index));
    files.set(ENVTEST, bytes);
    const tools = await resolveTools(['etcd', 'kubectl'], { env });
    expect(tools).toEqual({ etcd: releasedPath('etcd', env), kubectl: releasedPath('kubectl', env) });
    expect(existsSync(releasedPath('kube-apiserver', env))).toBe(false);
  });

  it('goes on where a download was cut off', async () => {
    const bytes = publishNats();
    let cut = 0;
    const whole = files.get(`${NATS}/${FILE}`) as Buffer;
    files.set(`${NATS}/${FILE}`, (request, response) => {
      const from = Number(/bytes=(\d+)-/.exec(request.headers.range ?? '')?.[1] ?? 0);
      response.writeHead(from ? 206 : 200, { 'content-length': whole.length - from });
      if (cut++ > 0) return void response.end(whole.subarray(from));
      response.write(whole.subarray(0, whole.length >> 1), () => setTimeout(() => response.destroy(), 50));
    });
    await resolveNats();
    expect(asked.filter((path) => path.startsWith(`${NATS}/${FILE}`))).toEqual([
      `${NATS}/${FILE}`,
      `${NATS}/${FILE} bytes=${bytes.length >> 1}-`,
    ]);
  });

  it('is fetched once by processes that start together', async () => {
    publishNats();
    await Promise.all([resolveNats(), resolveNats(), resolveNats()]);
    expect(asked.filter((path) => path.endsWith('.gz'))).toHaveLength(1);
    expect(execFileSync(releasedPath('nats-server', env), { encoding: 'utf8' })).toContain('nats-server');
  });
});

describe('what is refused', () => {
  it('is a file that is not the one that was published: nothing of it stays', async () => {
    publishNats(undefined, '0'.repeat(64));
    await expect(resolveNats()).rejects.toMatchObject({ code: 'download_refused' });
    await expect(resolveNats()).rejects.toThrow(
      /is not the file that was published.*SEMBLANCE_TOOLCHAIN=build/s,
    );
    expect(existsSync(releasedPath('nats-server', env))).toBe(false);
    expect(readdirSync(join(folder, 'cache', 'toolchain')).filter((name) => name.endsWith('.gz'))).toEqual(
      [],
    );
  });

  it('is an archive without the program, and a path in it leads nowhere', async () => {
    const root = join(folder, 'pack');
    mkdirSync(join(root, 'deep'), { recursive: true });
    writeFileSync(join(root, 'evil'), 'evil');
    execFileSync('tar', ['-czPf', join(folder, 'b.tar.gz'), '-C', join(root, 'deep'), '../evil']);
    publishNats(readFileSync(join(folder, 'b.tar.gz')));
    await expect(resolveNats()).rejects.toThrow('has no nats-server');
    expect(readdirSync(folder).sort()).toEqual(['b.tar.gz', 'cache', 'pack']);
  });
});

describe('without a way out', () => {
  it('is said with what to do, and nothing is there', async () => {
    server.close();
    server.closeAllConnections();
    const phases: string[] = [];
    const refused = resolveNats(({ phase }) => phases.push(phase));
    await expect(refused).rejects.toThrow(
      /there is no Go to build it with.\nNothing was downloaded: cannot download .*Install Go/s,
    );
    expect(phases).toEqual(['no-download']);
  });

  it('nobody waits for a server that says nothing', async () => {
    files.set(`${NATS}/SHA256SUMS`, () => {});
    await expect(resolveNats()).rejects.toThrow(/does not answer within 5 s/);
  });

  it('a release that is not there is built', async () => {
    await expect(resolveNats()).rejects.toThrow(/SHA256SUMS answers 404/);
  });

  it('nothing is asked for when it is switched off', async () => {
    publishNats();
    env.SEMBLANCE_TOOLCHAIN = 'build';
    await expect(resolveNats()).rejects.toMatchObject({ code: 'tool_missing' });
    expect(asked).toEqual([]);
  });
});

it('takes the newest release that is not newer than what would be built', () => {
  const entry = (v: string) =>
    `  v${v}:\n    envtest-v${v}-linux-amd64.tar.gz: { hash: h${v}, selfLink: u${v} }\n`;
  const [major, minor] = pinnedVersion('kube-apiserver').split('.').map(Number) as [number, number];
  const index = (...versions: string[]) => `releases:\n${versions.map(entry).join('')}`;
  const newer = `${major}.${minor + 1}.0`;
  const same = `${major}.${minor}.0`;
  const release = (text: string) => envtestRelease(text, 'linux-amd64')?.url;
  expect(release(index('1.30.0', same, newer))).toBe(`u${same}`);
  expect(release(index('1.30.0', '1.30.9', '1.9.1', newer))).toBe('u1.30.9');
  expect(envtestRelease(index(same), 'linux-s390x')).toBeUndefined();
});
