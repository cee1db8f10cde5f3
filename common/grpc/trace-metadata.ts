import type { Metadata } from '@grpc/grpc-js';
import { joinTrace, splitTrace, TRACEPARENT, TRACESTATE } from '../tracing/traceparent.ts';

/** Has a call carry a trace on. */
export function setTrace(metadata: Metadata, trace: string): void {
  const { traceparent, tracestate } = splitTrace(trace);
  metadata.set(TRACEPARENT, traceparent);
  if (tracestate) metadata.set(TRACESTATE, tracestate);
}

/** The trace that a call carries. */
export function traceIn(metadata: Metadata): string | undefined {
  const [traceparent, tracestate] = [TRACEPARENT, TRACESTATE].map((key) => metadata.get(key)[0]?.toString());
  return joinTrace(traceparent, tracestate);
}
