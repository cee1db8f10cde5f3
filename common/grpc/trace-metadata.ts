import type { Metadata } from '@grpc/grpc-js';
import { joinTrace, splitTrace, TRACEPARENT, TRACESTATE } from '../tracing/traceparent.ts';

/** Adds the trace context to the metadata of a call. */
export function setTrace(metadata: Metadata, trace: string): void {
  const { traceparent, tracestate } = splitTrace(trace);
  metadata.set(TRACEPARENT, traceparent);
  if (tracestate) metadata.set(TRACESTATE, tracestate);
}

/** Returns the trace context of a call; undefined if there is none. */
export function traceIn(metadata: Metadata): string | undefined {
  const [traceparent, tracestate] = [TRACEPARENT, TRACESTATE].map((key) => metadata.get(key)[0]?.toString());
  return joinTrace(traceparent, tracestate);
}
