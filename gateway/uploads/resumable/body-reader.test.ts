import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { BodyReader } from './body-reader.ts';

const never = new AbortController().signal;
const text = (chunk: Buffer | 'late' | undefined) => (chunk instanceof Buffer ? chunk.toString() : chunk);

async function* body(...parts: (string | number | Error)[]): AsyncGenerator<Buffer> {
  for (const part of parts) {
    if (part instanceof Error) throw part;
    if (typeof part === 'number') await delay(part);
    else yield Buffer.from(part);
  }
}

describe('BodyReader', () => {
  it('reads chunks to the end', async () => {
    const reader = new BodyReader(body('a', 'b'), never);
    expect([text(await reader.next()), text(await reader.next()), await reader.next()]).toEqual([
      'a',
      'b',
      undefined,
    ]);
    expect(reader.failure).toBeUndefined();
    expect(await reader.next()).toBeUndefined();
  });

  it('gives what it looked at again', async () => {
    const reader = new BodyReader(body('ab', 'cd', 'ef'), never);
    expect((await reader.peek(3)).toString()).toBe('abcd');
    expect((await reader.peek(100)).toString()).toBe('abcdef');
    reader.unread(Buffer.from('x'));
    expect([text(await reader.next()), text(await reader.next())]).toEqual(['x', 'abcdef']);
    expect((await reader.peek(5)).length).toBe(0);
  });

  it('says that nothing came in time, and loses nothing of it', async () => {
    const reader = new BodyReader(body('a', 200, 'b'), never);
    await reader.next();
    expect(await reader.next(20)).toBe('late');
    expect(await reader.next(20)).toBe('late');
    expect(text(await reader.next())).toBe('b');
  });

  it('keeps the fault of the source until what came before was read', async () => {
    const fault = new Error('gone');
    const reader = new BodyReader(body('a', fault), never);
    expect(text(await reader.next())).toBe('a');
    expect(reader.failure).toBeUndefined();
    expect(await reader.next()).toBeUndefined();
    expect(reader.failure).toBe(fault);
  });

  it('that is stopped reads what arrived, and no longer than a moment', async () => {
    const stop = new AbortController();
    const reader = new BodyReader(body('a', 'b', 10, 'c', 60_000, 'd'), stop.signal);
    expect(text(await reader.next())).toBe('a');
    stop.abort(new Error('enough'));
    expect([text(await reader.next()), text(await reader.next()), await reader.next()]).toEqual([
      'b',
      'c',
      undefined,
    ]);
    expect(reader.failure).toMatchObject({ message: 'enough' });
    await reader.close();
  });

  it('that waits is woken by the stop', async () => {
    const stop = new AbortController();
    const reader = new BodyReader(body(60_000, 'a'), stop.signal);
    const waiting = reader.next();
    stop.abort(new Error('enough'));
    expect(await waiting).toBeUndefined();
  });

  it('that is stopped does not follow a source without an end', async () => {
    async function* endless(): AsyncGenerator<Buffer> {
      for (;;) {
        await delay(5);
        yield Buffer.from('x');
      }
    }
    const stop = new AbortController();
    const reader = new BodyReader(endless(), stop.signal);
    stop.abort(new Error('enough'));
    let count = 0;
    while (await reader.next()) count++;
    expect(count).toBeGreaterThan(0);
  });
});
