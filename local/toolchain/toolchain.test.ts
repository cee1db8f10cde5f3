import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { runScript } from '@semblance/testkit/common/run-script';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Progress } from './progress.ts';
import { resolveTools } from './toolchain.ts';
import {
  cachedPath,
  cacheFolder,
  moduleFolder,
  pinnedVersion,
  SERVERS,
  TOOLS,
  type ToolName,
} from './tools.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'semblance-toolchain-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function program(path: string, body: string): string {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, `#!/bin/sh\n${body}\n`);
  chmodSync(path, 0o755);
  return path;
}

/** Returns an environment whose folders exist only in the test; the shell's own tools stay reachable. */
function environment(extra: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv {
  const cache = join(folder, 'cache');
  return { PATH: join(folder, 'bin'), SEMBLANCE_CACHE_DIR: cache, SEMBLANCE_TOOLCHAIN: 'build', ...extra };
}

const apiserver = (version: string) => `echo Kubernetes v${version}`;

describe('where a tool is found', () => {
  it('KUBEBUILDER_ASSETS before PATH before the cache', async () => {
    const env = environment({ KUBEBUILDER_ASSETS: join(folder, 'assets') });
    const cached = program(cachedPath('kube-apiserver', env), apiserver('1.36.3'));
    mkdirSync(join(folder, 'assets'));
    expect(await resolveTools(['kube-apiserver'], { env })).toEqual({ 'kube-apiserver': cached });
    const onPath = program(join(folder, 'bin/kube-apiserver'), apiserver('1.33.0'));
    expect(await resolveTools(['kube-apiserver'], { env })).toEqual({ 'kube-apiserver': onPath });
    const asset = program(join(folder, 'assets/kube-apiserver'), apiserver('1.30.1-extra'));
    expect(await resolveTools(['kube-apiserver'], { env })).toEqual({ 'kube-apiserver': asset });
  });

  it('looks through all of PATH and takes no folder and no plain file for a program', async () => {
    mkdirSync(join(folder, 'a/kubectl'), { recursive: true });
    mkdirSync(join(folder, 'b'));
    writeFileSync(join(folder, 'b/kubectl'), 'text');
    const wanted = program(join(folder, 'c/kubectl'), 'exit 0');
    const PATH = ['relative', '', join(folder, 'a'), join(folder, 'b'), join(folder, 'c')].join(delimiter);
    expect(await resolveTools(['kubectl'], { env: environment({ PATH }) })).toEqual({ kubectl: wanted });
  });

  it.each([
    [
      'kube-apiserver',
      apiserver('1.29.9'),
      /bin\/kube-apiserver is version 1\.29; Semblance needs kube-apiserver 1\.30/,
    ],
    ['etcd', 'echo "etcd Version: 3.4.30"', /etcd is version 3\.4; Semblance needs etcd 3\.5/],
    ['nats-server', 'echo nats-server: v2.9.25', /needs nats-server 2\.10/],
  ] as const)('refuses a %s that is too old instead of passing over it', async (name, body, message) => {
    program(join(folder, 'bin', name), body);
    const refused = resolveTools([name], { env: environment() });
    await expect(refused).rejects.toThrow(message);
    await expect(refused).rejects.toMatchObject({ code: 'tool_too_old' });
  });

  it('says which program cannot be run, or does not say its version', async () => {
    program(join(folder, 'bin/etcd'), 'echo "wrong ELF class" >&2; exit 126');
    await expect(resolveTools(['etcd'], { env: environment() })).rejects.toThrow(
      /bin\/etcd cannot be run:[\s\S]*wrong ELF/,
    );
    program(join(folder, 'bin/etcd'), 'echo hello');
    await expect(resolveTools(['etcd'], { env: environment() })).rejects.toThrow(
      /does not say its version, but: hello/,
    );
  });

  it('says that KUBEBUILDER_ASSETS names nothing', async () => {
    const env = environment({ KUBEBUILDER_ASSETS: join(folder, 'gone') });
    await expect(resolveTools(['etcd'], { env })).rejects.toThrow(
      /KUBEBUILDER_ASSETS is .*gone, which does not exist/,
    );
  });

  it('keeps its cache where it is told, else where the user keeps caches', () => {
    expect(cacheFolder({ SEMBLANCE_CACHE_DIR: '/x' })).toBe('/x');
    expect(cacheFolder({ XDG_CACHE_HOME: folder })).toBe(join(folder, 'semblance'));
    expect(cacheFolder({ XDG_CACHE_HOME: 'relative' })).toMatch(/\/\.cache\/semblance$/);
    expect(cachedPath('kubectl', { SEMBLANCE_CACHE_DIR: '/x' })).toContain(
      `/kubernetes-${pinnedVersion('kubectl')}/`,
    );
  });

  it('keeps its cache in the checkout of a user who can have none', () => {
    expect(cacheFolder({ XDG_CACHE_HOME: '/dev/null' })).toBe(
      join(import.meta.dirname, '../../node_modules/.cache/semblance'),
    );
  });
});

describe('what is built', () => {
  it.each(Object.keys(TOOLS) as ToolName[])(
    '%s has a version and the hashes of all that goes into it',
    (tool) => {
      expect(pinnedVersion(tool)).toMatch(/^(\d+\.\d+\.\d+|[0-9a-f]{12})$/);
      const requires = /^require /m.test(readFileSync(join(moduleFolder(tool), 'go.mod'), 'utf8'));
      expect(existsSync(join(moduleFolder(tool), 'go.sum'))).toBe(requires);
    },
  );

  it('for npm test and the stack on one machine is nothing of a node', () => {
    for (const tool of ['kubelet', 'kube-proxy', 'helm', 'coredns'] as const)
      expect(SERVERS as readonly ToolName[]).not.toContain(tool);
  });
});

describe('without Go', () => {
  it('names what is missing and the three ways out, once', async () => {
    program(join(folder, 'bin/etcd'), 'echo etcd Version: 3.6.1');
    const refused = resolveTools(['kube-apiserver', 'etcd', 'nats-server'], { env: environment() });
    await expect(refused).rejects.toMatchObject({ code: 'tool_missing' });
    const message = await refused.catch((error: Error) => error.message);
    expect(message).toMatch(/^kube-apiserver, nats-server were not found, and there is no Go/);
    for (const way of ['Install Go', 'KUBEBUILDER_ASSETS', 'PATH', 'KUBECONFIG'])
      expect(message).toContain(way);
  });
});

/**
 * Creates a `go` that acts outwardly like the real one, in milliseconds: it lists packages to compile, names each
 * on standard error while compiling, and writes the program.
 */
function fakeGo(body = ''): string {
  return program(
    join(folder, 'bin/go'),
    `PATH=/usr/bin:/bin
     echo "$1 $PWD" >> "${folder}/calls"
     case $1 in
       list) echo "go: downloading example.com/a v1.0.0" >&2; printf 'a\\nb\\nc\\n';;
       build) for p in a b c; do echo $p >&2; sleep 0.05; done
         while [ $# -gt 1 ]; do [ "$1" = -o ] && out=$2; shift; done
         ${body}
         printf '#!/bin/sh\\necho "built"\\n' > "$out"; chmod +x "$out";;
     esac`,
  );
}
const calls = () => readFileSync(join(folder, 'calls'), 'utf8').trim().split('\n');

describe('building', () => {
  it('builds once what is missing, quick ones first, and says how far it is', async () => {
    fakeGo();
    const env = environment();
    const seen: Progress[] = [];
    const report = (progress: Progress) => seen.push({ ...progress });
    const tools = await resolveTools(['kube-apiserver', 'nats-server'], { env, report });
    expect(tools).toEqual({
      'kube-apiserver': cachedPath('kube-apiserver', env),
      'nats-server': cachedPath('nats-server', env),
    });
    expect(readFileSync(tools['nats-server'], 'utf8')).toContain('built');
    expect(calls().map((line) => line.replace(/ .*\//, ' '))).toEqual([
      'list nats-server',
      'build nats-server',
      'list kubernetes',
      'build kubernetes',
    ]);
    const first = seen.filter(({ step }) => step === 1);
    expect(first[0]).toMatchObject({
      phase: 'planned',
      detail: expect.stringMatching(/^nats-server .*, kube-apiserver /),
    });
    expect(first[1]).toMatchObject({ what: `nats-server ${pinnedVersion('nats-server')}`, steps: 2 });
    expect(first.map(({ phase }) => phase)).toEqual(
      expect.arrayContaining(['downloading', 'compiling', 'linking', 'built']),
    );
    expect(first.at(-1)).toMatchObject({ phase: 'built', done: 3, total: 3 });

    await resolveTools(['kube-apiserver', 'nats-server'], { env });
    expect(calls()).toHaveLength(4);
    // The folder contains only the requested, complete program.
    expect(readdirSync(dirname(tools['nats-server']))).toEqual(['nats-server']);
  });

  it('is done by one of two processes that start at once', async () => {
    // The build lasts until another process waits for it.
    fakeGo(`while [ ! -e "${folder}/waited" ]; do sleep 0.05; done`);
    const env = { ...process.env, ...environment() };
    const code = `
      import { resolveTools } from ${JSON.stringify(new URL('./toolchain.ts', import.meta.url).href)};
      import { writeFileSync } from 'node:fs';
      const phases = new Set();
      const report = ({ phase, detail }) => {
        phases.add(detail ?? phase);
        if (phase === 'waiting') writeFileSync(${JSON.stringify(join(folder, 'waited'))}, '');
      };
      const tools = await resolveTools(['etcd'], { report });
      console.log(JSON.stringify({ path: tools.etcd, phases: [...phases] }));
    `;
    const outputs = await Promise.all([runScript(code, env).output, runScript(code, env).output]);
    const results = outputs.map((text) => JSON.parse(text) as { path: string; phases: string[] });
    for (const { path } of results) expect(path).toBe(cachedPath('etcd', env));
    expect(calls().filter((line) => line.startsWith('build'))).toHaveLength(1);
    const waited = results.filter(({ phases }) =>
      phases.some((text) => /another process \(pid \d+\) is building/.test(text)),
    );
    expect(waited).toHaveLength(1);
  });

  it('leaves nothing that looks finished when it fails or is cut short, and mends it next time', async () => {
    const env = environment();
    fakeGo('echo half > "$out"; echo "undefined: x" >&2; exit 1');
    await expect(resolveTools(['etcd'], { env })).rejects.toThrow(
      /building etcd .*: go build ended with status 1:[\s\S]*undefined: x/,
    );
    expect(existsSync(cachedPath('etcd', env))).toBe(false);

    fakeGo('echo half > "$out"; sleep 30');
    const killed = runScript(
      `import { resolveTools } from ${JSON.stringify(new URL('./toolchain.ts', import.meta.url).href)};
       await resolveTools(['etcd'], { report: ({ phase }) => console.log(phase) });`,
      { ...process.env, ...env },
    );
    await killed.line('linking');
    killed.child.kill('SIGKILL');
    await killed.exited;
    expect(existsSync(cachedPath('etcd', env))).toBe(false);

    fakeGo();
    await resolveTools(['etcd'], { env });
    expect(readdirSync(dirname(cachedPath('etcd', env)))).toEqual(['etcd']);
  });

  it('stops when told to', async () => {
    fakeGo('sleep 30');
    const stop = new AbortController();
    const building = resolveTools(['etcd'], {
      env: environment(),
      signal: stop.signal,
      report: ({ phase }) => phase === 'linking' && stop.abort(),
    });
    await expect(building).rejects.toMatchObject({ name: 'AbortError' });
  });

  it('says that Go is too old, and what to do', async () => {
    program(join(folder, 'bin/go'), 'echo "go: go.mod requires go >= 1.26.0 (running go 1.20)" >&2; exit 1');
    await expect(resolveTools(['etcd'], { env: environment() })).rejects.toThrow(
      /Go is too old[\s\S]*GOTOOLCHAIN=auto/,
    );
  });
});
