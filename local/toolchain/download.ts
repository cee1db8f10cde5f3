import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { chmod, mkdir, open, readFile, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { describeError } from '@semblance/common/errors';
import { parse } from 'yaml';
import { lock } from '../process/lock.ts';
import type { Report } from './progress.ts';
import { cacheFolder, pinnedVersion, releasedPath, ToolchainError, type ToolName } from './tools.ts';

/** An archive that a project publishes for this system and processor, with its expected hash. */
export interface Release {
  readonly url: string;
  readonly algorithm: 'sha256' | 'sha512';
  readonly hash: string;
}

const CONNECT_MS = 5_000;
const STALL_MS = 15_000;
const TRIES = 3;
const SYSTEMS: Readonly<Record<string, string>> = { linux: 'linux', darwin: 'darwin' };
const PROCESSORS: Readonly<Record<string, string>> = { x64: 'amd64', arm64: 'arm64' };

/** The server does not answer or does not have the file; the tool can still be built. */
export class NoDownloadError extends Error {
  override readonly name = 'NoDownloadError';
  readonly code = 'no_download';
  readonly retryable = true;
}

/**
 * Downloads the releases for this system into the cache: Kubernetes test binaries from controller-tools,
 * nats-server and helm from their own releases. An interrupted download resumes.
 * @param options.env `SEMBLANCE_TOOLCHAIN_MIRROR`: base URL under which hosts and paths are requested instead
 * @returns the tools that are in the cache; the others have no release for this system
 * @throws NoDownloadError when nothing answers within seconds
 * @throws ToolchainError `download_refused` when a file is not the published one
 */
export async function downloadTools(options: {
  tools: readonly ToolName[];
  env: NodeJS.ProcessEnv;
  report: Report;
  signal?: AbortSignal;
}): Promise<ToolName[]> {
  const { tools, env, report, signal } = options;
  const platform = platformName();
  const groups = platform === undefined ? [] : groupsOf(tools);
  const done: ToolName[] = [];
  for (const [index, { name, members }] of groups.entries()) {
    const release = await releaseOf(name, platform as string, env, signal);
    if (!release) continue;
    const begun = Date.now();
    const archive = join(cacheFolder(env), 'toolchain', `${name}-${release.hash.slice(0, 16)}.tar.gz`);
    await mkdir(dirname(archive), { recursive: true });
    const held = await lock(`${archive}.lock`, { signal });
    try {
      // The former holder of the lock may have fetched it.
      const wanted = members.filter((tool) => !existsSync(releasedPath(tool, env)));
      done.push(...members);
      if (wanted.length === 0) continue;
      const step = { what: name, step: index + 1, steps: groups.length };
      await fetchArchive(release, archive, env, signal, (bytes, total) =>
        report({ ...step, phase: 'fetching', done: bytes, total, elapsedMs: Date.now() - begun }),
      );
      for (const tool of wanted) await unpack(archive, tool, releasedPath(tool, env));
      await rm(archive, { force: true });
    } finally {
      held.release();
    }
  }
  return done;
}

function platformName(): string | undefined {
  const [system, processor] = [SYSTEMS[process.platform], PROCESSORS[process.arch]];
  return system && processor ? `${system}-${processor}` : undefined;
}

/** Returns the wanted tools, grouped by their archive. */
function groupsOf(tools: readonly ToolName[]) {
  const members = (...names: ToolName[]) => names.filter((name) => tools.includes(name));
  return [
    { name: 'nats-server', members: members('nats-server') },
    { name: 'envtest', members: members('kube-apiserver', 'etcd', 'kubectl') },
    { name: 'helm', members: members('helm') },
  ].filter((group) => group.members.length > 0);
}

async function releaseOf(
  name: string,
  platform: string,
  env: NodeJS.ProcessEnv,
  signal: AbortSignal | undefined,
): Promise<Release | undefined> {
  if (name === 'envtest') {
    const index =
      'https://raw.githubusercontent.com/kubernetes-sigs/controller-tools/main/envtest-releases.yaml';
    return envtestRelease(await fetchText(index, env, signal), platform);
  }
  const version = pinnedVersion(name as ToolName);
  const file = `${name}-v${version}-${platform}.tar.gz`;
  const [url, sums] =
    name === 'helm'
      ? [`https://get.helm.sh/${file}`, `https://get.helm.sh/${file}.sha256sum`]
      : [file, 'SHA256SUMS'].map(
          (path) => `https://github.com/nats-io/nats-server/releases/download/v${version}/${path}`,
        );
  const line = (await fetchText(sums as string, env, signal))
    .split('\n')
    .find((text) => text.trim().endsWith(file));
  const hash = line?.trim().split(/\s+/)[0];
  return hash ? { url: url as string, algorithm: 'sha256', hash } : undefined;
}

/** Returns the newest release whose minor version is at most that of the pinned source. */
export function envtestRelease(index: string, platform: string): Release | undefined {
  const { releases } = parse(index) as {
    releases: Record<string, Record<string, { hash: string; selfLink: string }>>;
  };
  const [major, minor] = pinnedVersion('kube-apiserver').split('.').map(Number) as [number, number];
  const numbers = (version: string) => version.slice(1).split('.').map(Number) as [number, number, number];
  const [newest] = Object.keys(releases)
    .filter(
      (version) =>
        /^v\d+\.\d+\.\d+$/.test(version) && releases[version]?.[`envtest-${version}-${platform}.tar.gz`],
    )
    .filter((version) => numbers(version)[0] === major && numbers(version)[1] <= minor)
    .sort((a, b) => numbers(b)[1] - numbers(a)[1] || numbers(b)[2] - numbers(a)[2]);
  const found = newest && releases[newest]?.[`envtest-${newest}-${platform}.tar.gz`];
  return found ? { url: found.selfLink, algorithm: 'sha512', hash: found.hash } : undefined;
}

/** Downloads the archive into the cache and verifies its hash. */
async function fetchArchive(
  release: Release,
  path: string,
  env: NodeJS.ProcessEnv,
  signal: AbortSignal | undefined,
  onBytes: (bytes: number, total: number) => void,
): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      await fetchRest(release.url, path, env, signal, onBytes);
      break;
    } catch (error) {
      signal?.throwIfAborted();
      if (tries === TRIES || error instanceof NoDownloadError) throw asNoDownload(release.url, error);
    }
  }
  const hash = createHash(release.algorithm)
    .update(await readFile(path))
    .digest('hex');
  if (hash === release.hash.toLowerCase()) return;
  await rm(path, { force: true });
  throw new ToolchainError(
    'download_refused',
    `${release.url} is not the file that was published: its ${release.algorithm} is ${hash}, not ${release.hash}. ` +
      'It was deleted. Run this again; with SEMBLANCE_TOOLCHAIN=build nothing is downloaded.',
  );
}

/** Downloads the missing rest of the file; a server without support for ranges sends all of it. */
async function fetchRest(
  url: string,
  path: string,
  env: NodeJS.ProcessEnv,
  signal: AbortSignal | undefined,
  onBytes: (bytes: number, total: number) => void,
): Promise<void> {
  const before = await stat(path).then(
    ({ size }) => size,
    () => 0,
  );
  const stall = new AbortController();
  const limits = AbortSignal.any([stall.signal, ...(signal ? [signal] : [])]);
  const response = await get(url, env, limits, before > 0 ? { Range: `bytes=${before}-` } : {});
  // The file is already complete; its checksum decides.
  if (response.status === 416) return void (await response.body?.cancel());
  if (!response.ok || !response.body) throw new NoDownloadError(`${url} answers ${response.status}`);
  const resumed = response.status === 206;
  const file = await open(path, resumed ? 'a' : 'w');
  let bytes = resumed ? before : 0;
  const total = bytes + Number(response.headers.get('content-length') ?? 0);
  const timer = setTimeout(() => stall.abort(new Error(`nothing came for ${STALL_MS / 1000} s`)), STALL_MS);
  try {
    for await (const chunk of response.body) {
      timer.refresh();
      await file.write(chunk);
      bytes += chunk.length;
      onBytes(bytes, total);
    }
  } finally {
    clearTimeout(timer);
    await file.close();
  }
}

async function fetchText(
  url: string,
  env: NodeJS.ProcessEnv,
  signal: AbortSignal | undefined,
): Promise<string> {
  try {
    const limits = AbortSignal.any([AbortSignal.timeout(STALL_MS), ...(signal ? [signal] : [])]);
    const response = await get(url, env, limits, {});
    if (!response.ok) throw new NoDownloadError(`${url} answers ${response.status}`);
    return await response.text();
  } catch (error) {
    signal?.throwIfAborted();
    throw asNoDownload(url, error);
  }
}

async function get(
  url: string,
  env: NodeJS.ProcessEnv,
  signal: AbortSignal,
  headers: Record<string, string>,
): Promise<Response> {
  const mirror = env.SEMBLANCE_TOOLCHAIN_MIRROR;
  const address = mirror ? url.replace(/^https:\/\//, `${mirror.replace(/\/$/, '')}/`) : url;
  const connecting = new AbortController();
  const timer = setTimeout(
    () => connecting.abort(new NoDownloadError(`${address} does not answer within ${CONNECT_MS / 1000} s`)),
    CONNECT_MS,
  );
  try {
    return await fetch(address, { headers, signal: AbortSignal.any([signal, connecting.signal]) });
  } catch (error) {
    throw asNoDownload(address, connecting.signal.aborted ? connecting.signal.reason : error);
  } finally {
    clearTimeout(timer);
  }
}

const asNoDownload = (url: string, error: unknown) =>
  error instanceof NoDownloadError
    ? error
    : new NoDownloadError(`cannot download ${url}: ${describeError(error)}`, { cause: error });

/** Extracts one program by its base name, so that no path in the archive is trusted. */
async function unpack(archive: string, tool: ToolName, target: string): Promise<void> {
  const { stdout } = await promisify(execFile)('tar', ['-tzf', archive], { maxBuffer: 1 << 24 });
  const member = stdout.split('\n').find((path) => path.split('/').at(-1) === tool);
  if (member === undefined) throw new ToolchainError('download_refused', `${archive} has no ${tool}`);
  await mkdir(dirname(target), { recursive: true });
  const unfinished = `${target}.${process.pid}.part`;
  try {
    const { stdout: program } = await promisify(execFile)('tar', ['-xzOf', archive, member], {
      encoding: 'buffer',
      maxBuffer: 1 << 30,
    });
    const file = await open(unfinished, 'w');
    await file.writeFile(program);
    await file.close();
    await chmod(unfinished, 0o755);
    await rename(unfinished, target);
  } finally {
    await rm(unfinished, { force: true });
  }
}
