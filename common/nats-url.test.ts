import { describe, expect, it } from 'vitest';
import { natsOptions } from './nats-url.ts';

describe('natsOptions', () => {
  it.each([
    ['nats://127.0.0.1:4222', { servers: ['nats://127.0.0.1:4222'] }],
    ['nats://a:b%40c@h:1', { servers: ['nats://h:1'], user: 'a', pass: 'b@c' }],
    ['tls://secret@h:1, tls://secret@i:2', { servers: ['tls://h:1', 'tls://i:2'], token: 'secret', tls: {} }],
    ['nats://h:1,tls://i:2', { servers: ['nats://h:1', 'tls://i:2'], tls: {} }],
  ])('takes %s apart', (url, options) => {
    expect(natsOptions(url)).toEqual(options);
  });

  it('asks for TLS wherever an authority is named', () => {
    const tls = { caFile: '/ca.crt' };
    expect(natsOptions('nats://h:1', '/ca.crt')).toEqual({ servers: ['nats://h:1'], tls });
  });

  it('refuses what is not a URL', () => {
    expect(() => natsOptions('somewhere')).toThrow(/Invalid URL/);
  });
});
