import { EventEmitter } from 'node:events';
import type { ServerResponse } from 'node:http';
import { describe, expect, it } from 'vitest';
import { whileClientWaits } from './client-gone.ts';
import { ClientGoneError } from './request-body.ts';

/** Returns a response of which only the connection matters. */
function response({ closed = false } = {}) {
  const events = Object.assign(new EventEmitter(), { closed });
  return { events, ctx: { res: events as unknown as ServerResponse } };
}

/** Work that goes on until it is cancelled. */
const endless = (signal: AbortSignal) =>
  new Promise((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(new Error('cancelled')));
  });

describe('what only its client has a use for', () => {
  it('is called off when the connection closes, and its failure then is nobody’s', async () => {
    const { ctx, events } = response();
    const work = whileClientWaits(ctx, endless);
    events.emit('close');
    await expect(work).rejects.toThrow(ClientGoneError);
  });

  it('is called off when the connection was closed before it began', async () => {
    const { ctx } = response({ closed: true });
    const work = whileClientWaits(ctx, async (signal) => signal.throwIfAborted());
    await expect(work).rejects.toThrow(ClientGoneError);
  });

  it('leaves no listener behind, whatever becomes of it', async () => {
    const { ctx, events } = response();
    expect(await whileClientWaits(ctx, async () => 'done')).toBe('done');
    await expect(whileClientWaits(ctx, () => Promise.reject(new Error('refused')))).rejects.toThrow(
      'refused',
    );
    expect(events.listenerCount('close')).toBe(0);
    const work = whileClientWaits(ctx, endless);
    expect(events.listenerCount('close')).toBe(1);
    events.emit('close');
    await expect(work).rejects.toThrow();
    expect(events.listenerCount('close')).toBe(0);
  });
});
