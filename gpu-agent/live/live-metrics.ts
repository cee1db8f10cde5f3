import type { LiveCapability } from '@semblance/engine-api/live-engine';
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

export type LiveMetrics = ReturnType<typeof createLiveMetrics>;

/** Creates the metrics of live sessions. `read` is called at each scrape. */
export function createLiveMetrics(
  registry: Registry,
  read: () => readonly {
    readonly capability: LiveCapability;
    readonly slots: number;
    readonly used: number;
  }[],
) {
  const registers = [registry];
  const labelNames = ['capability'];
  const gauge = (name: string, help: string, of: 'slots' | 'used') =>
    new Gauge({
      name,
      help,
      labelNames,
      registers,
      collect() {
        for (const each of read()) this.set({ capability: each.capability }, each[of]);
      },
    });
  gauge('semblance_agent_live_slots', 'Live sessions that warm threads can hold at once', 'slots');
  gauge('semblance_agent_live_slots_used', 'Live sessions held', 'used');
  return {
    refusals: new Counter({
      name: 'semblance_agent_live_claims_refused_total',
      help: 'Claims of slots that were refused, by reason',
      labelNames: ['capability', 'why'],
      registers,
    }),
    ended: new Counter({
      name: 'semblance_agent_live_sessions_total',
      help: 'Live sessions that ended, by reason',
      labelNames: ['capability', 'reason'],
      registers,
    }),
    messages: new Counter({
      name: 'semblance_agent_live_messages_total',
      help: 'Messages of media: received, converted and sent back, dropped',
      labelNames: ['capability', 'what'],
      registers,
    }),
    openSeconds: new Histogram({
      name: 'semblance_agent_live_open_seconds',
      help: 'From the claim of a slot until its stream could carry media',
      labelNames,
      buckets: [0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30],
      registers,
    }),
    delay: new Histogram({
      name: 'semblance_agent_live_delay_seconds',
      help: 'From the arrival of a message until its conversion was sent',
      labelNames,
      buckets: [0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 1, 5],
      registers,
    }),
    threadRestarts: new Counter({
      name: 'semblance_agent_live_thread_restarts_total',
      help: 'Threads of live engines that ended and were replaced',
      labelNames,
      registers,
    }),
  };
}
