import { MessageChannel } from 'node:worker_threads';
import { afterEach, expect, it } from 'vitest';
import type { RunsModels } from '../stages/models.ts';
import { PortPool, servePool } from './pool-port.ts';
import type { FloatTensors } from './protocol.ts';

const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) close();
});

/** Returns a pool at the other end of a port. */
function through(run: RunsModels['run']): PortPool {
  const { port1, port2 } = new MessageChannel();
  servePool({ run }, port1);
  closing.push(() => port1.close());
  return new PortPool(port2);
}

const one = (): FloatTensors => ({ input: { data: Float32Array.of(1, 2), dims: [2] } });

it('gives inputs and answers, whose memory moves, and faults', async () => {
  const pool = through(async (model, feeds) => {
    if (model === 'broken') throw new Error('broken failed: why');
    return { output: { data: feeds.input?.data.map((value) => 2 * value) ?? new Float32Array(), dims: [2] } };
  });
  const feeds = one();
  expect(await pool.run('double', feeds)).toEqual({ output: { data: Float32Array.of(2, 4), dims: [2] } });
  expect(feeds.input?.data).toHaveLength(0);
  await expect(pool.run('broken', one())).rejects.toThrow('broken failed: why');
});

it('takes a request back at both ends when it is aborted', async () => {
  const taken = Promise.withResolvers<AbortSignal>();
  const pool = through((_model, _feeds, signal) => {
    if (signal) taken.resolve(signal);
    return new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason)));
  });
  const abort = new AbortController();
  const asked = pool.run('slow', one(), abort.signal);
  const there = await taken.promise;
  const ended = new Promise((resolve) => there.addEventListener('abort', resolve));
  abort.abort(new Error('changed his mind'));
  await expect(asked).rejects.toThrow('changed his mind');
  await ended;
  await expect(pool.run('slow', one(), abort.signal)).rejects.toThrow('changed his mind');
});

it('fails what waits when the port is closed', async () => {
  const pool = through(() => {
    for (const close of closing.splice(0)) close();
    return new Promise(() => {});
  });
  await expect(pool.run('slow', one())).rejects.toThrow('the models are closed');
});
