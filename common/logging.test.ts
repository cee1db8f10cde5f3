import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { createLogger } from './logging.ts';

function capture() {
  const lines: string[] = [];
  const destination = { write: (line: string) => void lines.push(line) };
  return { lines, logger: createLogger({ service: 'test', level: 'info', destination }) };
}

describe('createLogger', () => {
  it('writes one JSON line an event, with service, level name and ISO time', () => {
    const { lines, logger } = capture();
    logger.info({ jobId: 'job-1' }, 'settled');
    expect(lines).toHaveLength(1);
    const event = JSON.parse(lines[0] as string);
    expect(event).toMatchObject({ level: 'info', service: 'test', jobId: 'job-1', msg: 'settled' });
    expect(new Date(event.time).toISOString()).toBe(event.time);
  });

  it('never writes keys, tokens, scripts or signed links, two levels down either', () => {
    const { lines, logger } = capture();
    const secret = 'sk_live_hunter2';
    logger.info({ authorization: secret, request: { api_key: secret, headers: { authorization: secret } } });
    logger.info({ sinks: [{ url: secret }], job: { output_url: secret }, body: { script: secret } });
    expect(lines.join('')).not.toContain('hunter2');
    expect(lines.join('')).toContain('[secret]');
  });

  it('keeps the causes of an error', () => {
    const { lines, logger } = capture();
    logger.error({ err: new Error('outer', { cause: new Error('inner') }) }, 'failed');
    expect(lines[0]).toContain('inner');
  });
});

describe('a logger that gathers its lines', () => {
  const module = JSON.stringify(new URL('./logging.ts', import.meta.url).href);
  const script = (then: string, gatherMs: number) => [
    '--input-type=module',
    '-e',
    `import { createLogger } from ${module};
     const logger = createLogger({ service: 'test', level: 'info', gatherMs: ${gatherMs} });
     for (let i = 0; i < 300; i++) logger.info({ i });
     ${then}`,
  ];

  it('writes all of them when the process ends', async () => {
    const { stdout } = await promisify(execFile)(process.execPath, script('process.exit(0);', 60_000));
    expect(
      stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line).i),
    ).toEqual([...Array(300).keys()]);
  });

  it('has written all of them when a flush is done', async () => {
    const child = spawn(
      process.execPath,
      script('logger.info("x".repeat(100_000)); logger.flush(() => process.kill(process.pid, 9));', 60_000),
      { stdio: ['ignore', 'pipe', 'inherit'] },
    );
    let text = '';
    child.stdout.on('data', (chunk) => {
      text += chunk;
    });
    await once(child, 'close');
    expect(text.trim().split('\n')).toHaveLength(301);
  });

  it('writes them after its time while the process runs', async () => {
    const child = spawn(process.execPath, script('setInterval(() => {}, 1000);', 20), {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let text = '';
    child.stdout.on('data', (chunk) => {
      text += chunk;
    });
    await expect.poll(() => text.trim().split('\n').length, { timeout: 30_000 }).toBe(300);
    child.kill('SIGKILL');
    await once(child, 'exit');
  });
});
