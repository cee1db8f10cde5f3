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
