import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { chmod, mkdir, open, readFile, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { DownloadError, downloadRest, getUrl } from '@semblance/common/download';
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
      await downloadRest(addressOf(release.url, env), path, {
        connectMs: CONNECT_MS,
        stallMs: STALL_MS,
        signal,
        onBytes,
      });
      break;
    } catch (error) {
      signal?.throwIfAborted();
      // A server that answers otherwise, or nothing at all, does so again.
      const lost = error instanceof DownloadError && error.status === undefined && existsSync(path);
      if (tries === TRIES || !lost) throw asNoDownload(release.url, error);
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

async function fetchText(
  url: string,
  env: NodeJS.ProcessEnv,
  signal: AbortSignal | undefined,
): Promise<string> {
  try {
    const limits = AbortSignal.any([AbortSignal.timeout(STALL_MS), ...(signal ? [signal] : [])]);
    const response = await getUrl(addressOf(url, env), { connectMs: CONNECT_MS, signal: limits });
    if (!response.ok) throw new NoDownloadError(`${url} answers ${response.status}`);
    return await response.text();
  } catch (error) {
    signal?.throwIfAborted();
    throw asNoDownload(url, error);
  }
}

/** Returns the address under which a file is requested. */
function addressOf(url: string, env: NodeJS.ProcessEnv): string {
  const mirror = env.SEMBLANCE_TOOLCHAIN_MIRROR;
  return mirror ? url.replace(/^https:\/\//, `${mirror.replace(/\/$/, '')}/`) : url;
}

const asNoDownload = (url: string, error: unknown) =>
  error instanceof NoDownloadError
    ? error
    : new NoDownloadError(
        error instanceof DownloadError ? error.message : `cannot download ${url}: ${describeError(error)}`,
        { cause: error },
      );

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
