import {
  Counter,
  type CounterConfiguration,
  Gauge,
  type GaugeConfiguration,
  Histogram,
  type HistogramConfiguration,
  type Registry,
} from 'prom-client';

/**
 * Returns the registry's metric of that name, and creates it if it is missing, because several parts of a process
 * share metrics.
 */
export function counter<L extends string>(registry: Registry, settings: CounterConfiguration<L>): Counter<L> {
  const found = registry.getSingleMetric(settings.name) as Counter<L> | undefined;
  return found ?? new Counter({ ...settings, registers: [registry] });
}

export function gauge<L extends string>(registry: Registry, settings: GaugeConfiguration<L>): Gauge<L> {
  const found = registry.getSingleMetric(settings.name) as Gauge<L> | undefined;
  return found ?? new Gauge({ ...settings, registers: [registry] });
}

export function histogram<L extends string>(
  registry: Registry,
  settings: HistogramConfiguration<L>,
): Histogram<L> {
  const found = registry.getSingleMetric(settings.name) as Histogram<L> | undefined;
  return found ?? new Histogram({ ...settings, registers: [registry] });
}
