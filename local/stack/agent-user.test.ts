import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { spawnGuarded } from '@semblance/common/process/child';
import { createGuard } from '@semblance/common/process/guard';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { RootRefusedError } from '../unprivileged.ts';
import { agentUser, lend } from './agent-user.ts';

const isRoot = process.getuid?.() === 0;
const main = join(import.meta.dirname, 'agent-user.ts');
let folder: string;
let stateDir: string;
let workDir: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'semblance-user-'));
  chmodSync(folder, 0o755);
  stateDir = join(folder, 'state');
  workDir = join(stateDir, 'agent');
  mkdirSync(stateDir, { mode: 0o700 });
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

describe.runIf(isRoot)('started by root', () => {
  it('the agent gets an account of its own, which owns its work and reads nothing else of the stack', async () => {
    mkdirSync(workDir);
    writeFileSync(join(workDir, 'left-by-root'), 'x');
    writeFileSync(join(stateDir, 'stack.json'), 'the admin token', { mode: 0o600 });
    const user = await agentUser({ stateDir, workDir, main });
    expect(user).toEqual({ uid: 65_534, gid: 65_534 });
    expect(statSync(join(workDir, 'left-by-root')).uid).toBe(65_534);
    expect(statSync(stateDir).mode & 0o777).toBe(0o711);

    const guard = await createGuard();
    const logFile = join(folder, 'log');
    const script = `grep -E '^(Uid|Gid|Groups|CapEff|CapAmb)' /proc/self/status; echo written > ${workDir}/own; cat ${stateDir}/stack.json; ls ${stateDir}`;
    const child = await spawnGuarded({
      launch: { command: '/bin/sh', args: ['-c', script], cwd: workDir, user },
      guard,
      logFile,
      stopSignal: 'SIGTERM',
    });
    await child.exited;
    await guard.close();
    const said = readFileSync(logFile, 'utf8');
    const ids = '65534\t65534\t65534\t65534';
    expect(said).toContain(`Uid:\t${ids}`);
    expect(said).toContain(`Gid:\t${ids}`);
    expect(said).toMatch(/^Groups:\s*$/m);
    expect(said).toContain('CapEff:\t0000000000000000');
    expect(said).toContain('CapAmb:\t0000000000000000');
    expect(existsSync(join(workDir, 'own'))).toBe(true);
    expect(said).not.toContain('the admin token');
    expect(said.match(/Permission denied/gi)).toHaveLength(2);
  });

  it.each([
    ['enter the folder of the stack', () => chmodSync(folder, 0o700), main],
    ['read the program', () => {}, '/root/none/main.ts'],
  ])('is refused, with what to do, where that account cannot %s', async (_what, close, program) => {
    close();
    const refused = await agentUser({ stateDir, workDir, main: program }).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(RootRefusedError);
    expect(String(refused)).toMatch(/(EACCES|ENOENT).*Start this as an ordinary user/s);
  });

  it('the agent gets copies of the files that it needs, whole and closed to others', async () => {
    const closed = join(folder, 'closed');
    mkdirSync(join(closed, 'tls'), { recursive: true, mode: 0o700 });
    for (const name of ['ca.pem', 'cert.pem', 'key.pem', 'signer-key', 'tls/ca.crt', 'tls/tls.key'])
      writeFileSync(join(closed, name), `text of ${name}`, { mode: 0o600 });
    const kubeconfig = {
      apiVersion: 'v1',
      kind: 'Config',
      'current-context': 'x',
      clusters: [{ name: 'c', cluster: { server: 'https://a', 'certificate-authority': 'ca.pem' } }],
      users: [{ name: 'u', user: { 'client-certificate': 'cert.pem', 'client-key': 'key.pem' } }],
      contexts: [{ name: 'x', context: { cluster: 'c', user: 'u', namespace: 'n' } }],
    };
    writeFileSync(join(closed, 'kubeconfig'), JSON.stringify(kubeconfig));
    const env = await lend(
      { stateDir },
      { uid: 65_534, gid: 65_534 },
      {
        KUBECONFIG: join(closed, 'kubeconfig'),
        SEMBLANCE_PROVENANCE_KEY: join(closed, 'signer-key'),
        SEMBLANCE_TLS_DIR: join(closed, 'tls'),
      },
    );
    const text = readFileSync(env.KUBECONFIG ?? '', 'utf8');
    for (const name of ['ca.pem', 'cert.pem', 'key.pem'])
      expect(text).toContain(Buffer.from(`text of ${name}`).toString('base64'));
    expect(text).not.toMatch(/\.pem/);
    expect(readFileSync(env.SEMBLANCE_PROVENANCE_KEY ?? '', 'utf8')).toBe('text of signer-key');
    expect(existsSync(join(env.SEMBLANCE_TLS_DIR ?? '', 'tls.key'))).toBe(false);
    const lent = join(stateDir, 'agent-files');
    expect([statSync(lent).uid, statSync(lent).mode & 0o777]).toEqual([65_534, 0o700]);
    expect(statSync(env.KUBECONFIG ?? '').uid).toBe(65_534);
  });
});

describe.runIf(!isRoot)('started by an ordinary user', () => {
  it('changes nothing', async () => {
    expect(await agentUser({ stateDir, workDir, main })).toBeUndefined();
    expect(statSync(stateDir).mode & 0o777).toBe(0o700);
  });
});
