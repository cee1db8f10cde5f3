import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { EndingName } from './endings.ts';

export interface StreamMetrics {
  opened(capability: string): void;
  closed(capability: string, name: EndingName, streamedMs: number, dropped: number): void;
  /** Returns the observer of one stream; looking up labels for each message would cost much. */
  answeredOf(capability: string): (ms: number) => void;
  /** @param outcome `changed`, or the code of the refusal */
  changed(capability: string, outcome: string): void;
  reportsOwed(count: () => number): void;
}

export function createStreamMetrics(registry: Registry): StreamMetrics {
  const registers = [registry];
  const open = new Gauge({
    name: 'semblance_gateway_streams',
    help: 'Open sockets of live sessions.',
    labelNames: ['capability'],
    registers,
  });
  const closed = new Counter({
    name: 'semblance_gateway_streams_closed_total',
    help: 'Sockets of live sessions that ended, by why.',
    labelNames: ['capability', 'reason'],
    registers,
  });
  const streamed = new Counter({
    name: 'semblance_gateway_streamed_seconds_total',
    help: 'Metered seconds of the sockets that ended.',
    labelNames: ['capability'],
    registers,
  });
  const relay = new Histogram({
    name: 'semblance_gateway_relay_seconds',
    help: 'From a message of media on its way to the agent until its conversion was back.',
    labelNames: ['capability'],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 5],
    registers,
  });
  const dropped = new Counter({
    name: 'semblance_gateway_pictures_dropped_total',
    help: 'Pictures thrown away for newer ones because agent or client was slow, of the sockets that ended.',
    registers,
  });
  const changes = new Counter({
    name: 'semblance_gateway_session_changes_total',
    help: 'Changes that clients asked for in mid-session, by outcome: changed, or the code of the refusal.',
    labelNames: ['capability', 'outcome'],
    registers,
  });
  return {
    changed: (capability, outcome) => changes.inc({ capability, outcome }),
    opened: (capability) => open.inc({ capability }),
    closed(capability, reason, streamedMs, count) {
      open.dec({ capability });
      closed.inc({ capability, reason });
      streamed.inc({ capability }, streamedMs / 1000);
      dropped.inc(count);
    },
    answeredOf(capability) {
      const own = relay.labels({ capability });
      return (ms) => own.observe(ms / 1000);
    },
    reportsOwed(count) {
      new Gauge({
        name: 'semblance_gateway_session_reports_owed',
        help: 'Final reports of sessions that the control plane has not taken.',
        registers,
        collect() {
          this.set(count());
        },
      });
    },
  };
}
