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

  it('shares no directory with the sockets of live sessions', () => {
    const live = (path: string) =>
      loadSettings({ SEMBLANCE_SIDECAR_SOCKETS: '/run/a/engine.sock', SEMBLANCE_LIVE_VOICE_SIDECAR: path });
    expect(live('/run/b/engine.sock').live.voiceSidecar).toBe('/run/b/engine.sock');
    expect(() => live('/run/a/live.sock')).toThrow('need a directory of its own for each socket');
  });
});

describe('SEMBLANCE_AGENT_LEASE_SECONDS', () => {
  const times = (seconds?: string) =>
    loadSettings({
      KUBECONFIG: '/k',
      SEMBLANCE_NAMESPACE: 'n',
      ...(seconds === undefined ? {} : { SEMBLANCE_AGENT_LEASE_SECONDS: seconds }),
    }).leaseTimes;

  it.each([
    [undefined, { durationSeconds: 8, renewEveryMs: 2_000, fenceAfterMs: 6_500 }],
    ['40', { durationSeconds: 40, renewEveryMs: 10_000, fenceAfterMs: 38_500 }],
  ])('%s: four renewals in its length, and work given up before it lapses', (seconds, expected) => {
    expect(times(seconds)).toEqual(expected);
  });

  it.each(['7', '121', '8.5', 'long', '-8'])('refuses %s', (seconds) => {
    expect(() => times(seconds)).toThrow('SEMBLANCE_AGENT_LEASE_SECONDS');
  });
});

describe('SEMBLANCE_SWAP_LIKENESS', () => {
  const builtin = (env: Record<string, string>) =>
    loadSettings({ KUBECONFIG: '/k', SEMBLANCE_NAMESPACE: 'n', ...env }).engineSettings.builtin;

  it.each([
    [{}, '0.6'],
    [{ SEMBLANCE_SWAP_LIKENESS: '0' }, '0'],
    [{ SEMBLANCE_SWAP_LIKENESS: '1.0' }, '1'],
  ])('of %o is given to the engine as %s', (env: Record<string, string>, likeness) => {
    expect(builtin(env)).toEqual({ likeness });
  });

  it.each(['-0.1', '1.1', 'much', 'NaN'])('refuses %s', (SEMBLANCE_SWAP_LIKENESS) => {
    expect(() => builtin({ SEMBLANCE_SWAP_LIKENESS })).toThrow('SEMBLANCE_SWAP_LIKENESS');
  });
});

describe('memory for renders', () => {
  const memoryOf = (env: Record<string, string>) =>
    loadSettings({ KUBECONFIG: '/k', SEMBLANCE_NAMESPACE: 'n', ...env }).memoryMib;

  it('is what live swaps leave, but for one, of what the process may use, unless it is said', () => {
    const all = memoryOf({ SEMBLANCE_LIVE_VIDEO_SLOTS: '0' });
    expect(memoryOf({ SEMBLANCE_LIVE_VIDEO_SLOTS: '1' })).toBe(all);
    expect(memoryOf({ SEMBLANCE_LIVE_VIDEO_SLOTS: '4' })).toBe(all - 900);
    expect(memoryOf({ SEMBLANCE_LIVE_VIDEO_SLOTS: '1024' })).toBeGreaterThan(0);
    expect(memoryOf({ SEMBLANCE_LIVE_VIDEO_SLOTS: '4', SEMBLANCE_AGENT_MEMORY_MIB: '700' })).toBe(700);
  });
});
