import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import {
  baseShape,
  ConfigError,
  hexSecret,
  listenAddress,
  loadConfig,
  objectsShape,
  origin,
} from './config.ts';

describe('loadConfig', () => {
  it('fills defaults and treats an empty variable as absent', () => {
    const config = loadConfig(baseShape, { SEMBLANCE_LOG_LEVEL: '' });
    expect(config).toEqual({
      SEMBLANCE_LOG_LEVEL: 'info',
      SEMBLANCE_HEALTH_LISTEN: { host: '127.0.0.1', port: 0 },
    });
  });

  it('names every fault at once and never prints a value', () => {
    const shape = { SECRET: hexSecret, LISTEN: listenAddress, LEFT_OUT: z.string() };
    const load = () => loadConfig(shape, { SECRET: 'hunter2hunter2', LISTEN: 'nowhere' });
    expect(load).toThrow(ConfigError);
    expect(load).toThrow(/SECRET[\s\S]*LISTEN[\s\S]*LEFT_OUT/);
    expect(load).not.toThrow(/hunter2/);
  });
});

describe('parts of settings', () => {
  it('reads addresses, IPv6 included', () => {
    expect(listenAddress.parse('0.0.0.0:80')).toEqual({ host: '0.0.0.0', port: 80 });
    expect(listenAddress.parse('[::1]:0')).toEqual({ host: '::1', port: 0 });
    expect(() => listenAddress.parse('a:70000')).toThrow();
  });

  it('takes an origin only', () => {
    expect(origin.parse('http://localhost:8080/')).toBe('http://localhost:8080');
    for (const bad of ['http://h/path', 'ftp://h', 'h:80', 'http://h?x=1'])
      expect(() => origin.parse(bad)).toThrow();
  });

  it('takes the three kinds of object store', () => {
    const of = objectsShape.SEMBLANCE_OBJECTS_URL;
    expect(of.parse('file:///srv/objects')).toBe('file:///srv/objects');
    expect(of.parse('s3://bucket?region=eu-1')).toContain('bucket');
    expect(of.parse('http://gateway:8080')).toBe('http://gateway:8080');
    expect(() => of.parse('file://relative')).toThrow();
    expect(() => of.parse('ftp://gateway:8080')).toThrow();
  });
});
