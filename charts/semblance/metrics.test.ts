import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { chartFile, find, type Manifest, ofKind, podsOf, render } from '@semblance/testkit/chart/chart';
import { beforeAll, describe, expect, it } from 'vitest';

const REPOSITORY = join(import.meta.dirname, '..', '..');
/** Suffixes that prom-client appends to the name of a histogram. */
const SUFFIX = /_(bucket|sum|count)$/;

let external: Manifest[];
let isKnown: (name: string) => boolean;

beforeAll(async () => {
  external = await render('external');
  isKnown = await metricNames();
});

/** Returns a test for whether the code has a metric of that name, literal or built from a template. */
async function metricNames(): Promise<(name: string) => boolean> {
  const names = new Set<string>();
  const patterns: RegExp[] = [];
  for (const folder of ['common', 'control-plane', 'gateway', 'gpu-agent', 'operator']) {
    const files = await readdir(join(REPOSITORY, folder), { recursive: true });
    for (const file of files.filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts'))) {
      const text = await readFile(join(REPOSITORY, folder, file), 'utf8');
      for (const [, name] of text.matchAll(/'(semblance_[a-z0-9_]+)'/g)) names.add(name as string);
      for (const [, start, end] of text.matchAll(/`(semblance_[a-z_]+_)\$\{name\}(_[a-z_]+)`/g))
        patterns.push(new RegExp(`^${start}[a-z]+${end}$`));
    }
  }
  return (name) => names.has(name) || patterns.some((pattern) => pattern.test(name));
}

const used = (expression: string) =>
  [...expression.matchAll(/\b(semblance_[a-z0-9_]+)/g)].map(([name]) => name);
const unknownIn = (expressions: readonly string[]) =>
  expressions.flatMap(used).filter((name) => !isKnown(name) && !isKnown(name.replace(SUFFIX, '')));

describe('alerts', () => {
  it('speak of metrics that there are, and say what to do', () => {
    const { rules } = find(external, 'PrometheusRule', 'rel-semblance').spec.groups[0];
    expect(rules.length).toBeGreaterThan(10);
    expect(unknownIn(rules.map(({ expr }: { expr: string }) => expr))).toEqual([]);
    for (const { alert, expr, labels, annotations } of rules) {
      expect(used(expr).length, alert).toBeGreaterThan(0);
      expect(expr, alert).toContain('namespace="apps"');
      expect(labels.severity, alert).toMatch(/^(critical|warning)$/);
      expect(annotations.summary.length, alert).toBeGreaterThan(20);
      expect(annotations.runbook.length, alert).toBeGreaterThan(40);
    }
  });
});

describe('the dashboard', () => {
  it('speaks of metrics that there are', async () => {
    const config = find(external, 'ConfigMap', 'rel-semblance-dashboard');
    expect(config.metadata.labels).toMatchObject({ grafana_dashboard: '1' });
    const dashboard = JSON.parse(config.data['semblance.json']);
    expect(dashboard).toEqual(JSON.parse(await chartFile('files/dashboards/semblance.json')));
    const expressions = (dashboard.panels as { targets?: { expr: string }[] }[]).flatMap(({ targets = [] }) =>
      targets.map(({ expr }) => expr),
    );
    expect(expressions.length).toBeGreaterThan(15);
    expect(unknownIn(expressions)).toEqual([]);
    const ids = (dashboard.panels as { id: number }[]).map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
  });
});

describe('monitors', () => {
  /** Returns the Pods that a selector of labels and expressions matches. */
  const selected = (manifests: Manifest[], selector: Manifest['spec']) =>
    podsOf(manifests)
      .filter(({ template: { metadata } }) =>
        Object.entries(selector.matchLabels).every(([name, value]) => metadata.labels?.[name] === value),
      )
      .filter(({ template: { metadata } }) =>
        (selector.matchExpressions ?? []).every(({ key, values }: { key: string; values: string[] }) =>
          values.includes(metadata.labels?.[key] ?? ''),
        ),
      )
      .map(({ template: { spec } }) => spec.containers[0]);

  it('of Pods find the health port of every service and agent', async () => {
    const manifests = await render('gpu');
    const { spec } = find(manifests, 'PodMonitor', 'rel-semblance');
    const containers = selected(manifests, spec.selector);
    expect(containers).toHaveLength(3 + 4);
    for (const { ports } of containers)
      expect(ports).toContainEqual(expect.objectContaining({ name: 'health', containerPort: 8081 }));
    expect(spec.podMetricsEndpoints[0]).toMatchObject({ port: 'health', path: '/metrics' });
  });

  it('of Services find one for each service, and agents by their Pods', () => {
    const { spec } = find(external, 'ServiceMonitor', 'rel-semblance');
    const services = ofKind(external, 'Service').filter(({ metadata }) =>
      Object.entries(spec.selector.matchLabels).every(([name, value]) => metadata.labels?.[name] === value),
    );
    expect(services).toHaveLength(3);
    for (const service of services) {
      expect(service.spec.ports).toEqual([{ name: 'health', port: 8081, targetPort: 'health' }]);
      expect(selected(external, { matchLabels: service.spec.selector })).toHaveLength(1);
    }
    // Otherwise the Service's name would replace the label `service`, by which alerts and the dashboard select.
    expect(spec.endpoints).toEqual([expect.objectContaining({ port: 'health', honorLabels: true })]);
    expect(find(external, 'PodMonitor', 'rel-semblance-agents')).toBeDefined();
  });
});
