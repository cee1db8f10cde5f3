import { expect, test } from 'vitest';
import { serversOf } from './prepare.ts';
import { importGraph, reachedFrom } from './structure/import-graph.ts';

test('prepares Kubernetes only for files that ask for it', () => {
  const graph = importGraph({ types: false });
  const servers = (file: string): string[] => serversOf([file, ...reachedFrom(file, graph)]);
  expect(servers('control-plane/jobs/submit.test.ts')).toEqual(['nats-server']);
  expect(servers('operator/outage.test.ts')).toContain('kube-apiserver');
  expect(servers('common/money.test.ts')).toEqual([]);
});
