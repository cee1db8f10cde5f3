import { describe, expect, it } from 'vitest';
import { loadSettings } from './settings.ts';

const sockets = (text: string) =>
  loadSettings({ KUBECONFIG: '/k', SEMBLANCE_NAMESPACE: 'n', SEMBLANCE_SIDECAR_SOCKETS: text }).sidecars;

describe('SEMBLANCE_SIDECAR_SOCKETS', () => {
  it.each([
    ['', []],
    ['/run/a/engine.sock', ['/run/a/engine.sock']],
    [' /run/a/engine.sock , /run/b/engine.sock,', ['/run/a/engine.sock', '/run/b/engine.sock']],
  ])('is a list: "%s"', (text, expected) => {
    expect(sockets(text)).toEqual(expected);
  });

  it.each([
    ['engine.sock', 'must be absolute paths'],
    [`/${'x'.repeat(100)}`, 'of at most 100 bytes'],
    [`/${'ü'.repeat(60)}`, 'of at most 100 bytes'],
    ['/run/a/one.sock,/run/a/two.sock', 'a directory of its own for each socket'],
  ])('refuses %s', (text, message) => {
    expect(() => sockets(text)).toThrow(message);
  });
});
