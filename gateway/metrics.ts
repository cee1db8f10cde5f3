import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

/** The four golden signals of the gateway: latency, traffic and errors by route, and the work in progress. */
export interface GatewayMetrics {
  began(): void;
  ended(method: string, route: string, status: number, seconds: number): void;
  uploadBegan(): void;
  uploadEnded(outcome: 'stored' | 'refused' | 'failed', bytes: number): void;
  controlPlaneFailed(): void;
  connections(count: () => Promise<number>): void;
  eventStreams(count: () => number): void;
}

export function createMetrics(registry: Registry): GatewayMetrics {
  const registers = [registry];
  const duration = new Histogram({
    name: 'semblance_gateway_request_seconds',
    help: 'Time from the request to the end of its response; status 499: the client left before.',
    labelNames: ['method', 'route', 'status'],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60],
    registers,
  });
  const inFlight = new Gauge({
    name: 'semblance_gateway_requests_in_flight',
    help: 'Requests that have begun and whose response has not ended.',
    registers,
  });
  const uploads = new Gauge({
    name: 'semblance_gateway_uploads_in_flight',
    help: 'Uploads being received.',
    registers,
  });
  const uploaded = new Counter({
    name: 'semblance_gateway_uploads_total',
    help: 'Uploads by outcome.',
    labelNames: ['outcome'],
    registers,
  });
  const uploadedBytes = new Counter({
    name: 'semblance_gateway_uploaded_bytes_total',
    help: 'File bytes of the uploads that were stored.',
    registers,
  });
  const controlPlaneFailures = new Counter({
    name: 'semblance_gateway_control_plane_failures_total',
    help: 'Calls to the control plane that got no answer or an internal error.',
    registers,
  });
  return {
    began: () => inFlight.inc(),
    ended(method, route, status, seconds) {
      inFlight.dec();
      duration.observe({ method, route, status }, seconds);
    },
    uploadBegan: () => uploads.inc(),
    uploadEnded(outcome, bytes) {
      uploads.dec();
      uploaded.inc({ outcome });
      uploadedBytes.inc(bytes);
    },
    controlPlaneFailed: () => controlPlaneFailures.inc(),
    eventStreams(count) {
      new Gauge({
        name: 'semblance_gateway_event_streams',
        help: 'Open streams of job events.',
        registers,
        collect() {
          this.set(count());
        },
      });
    },
    connections(count) {
      new Gauge({
        name: 'semblance_gateway_connections',
        help: 'Open client connections.',
        registers,
        async collect() {
          this.set(await count());
        },
      });
    },
  };
}
