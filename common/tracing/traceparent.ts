/** A W3C trace context, as in the header `traceparent`. */
export interface TraceContext {
  /** 32 hexadecimal digits. */
  readonly traceId: string;
  /** 16 hexadecimal digits. */
  readonly spanId: string;
  readonly traceFlags: number;
}

/** Name of the header and metadata that carry the trace context; see https://www.w3.org/TR/trace-context/. */
export const TRACEPARENT = 'traceparent';
/** Name of the header and metadata that carry the data of the callers' tracing systems. */
export const TRACESTATE = 'tracestate';
/** Annotations of a RenderJob that carry its trace. */
const TRACEPARENT_ANNOTATION = 'semblance.dev/traceparent';
const TRACESTATE_ANNOTATION = 'semblance.dev/tracestate';

const SHAPE = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;

/** Parses a traceparent. Returns undefined for invalid text. Future versions may have more parts after the flags. */
export function parseTraceparent(text: string | undefined): TraceContext | undefined {
  const match = text === undefined || text.length > 512 ? null : SHAPE.exec(text);
  if (!match) return undefined;
  const [, version, traceId = '', spanId = '', flags = '', more] = match;
  if (version === 'ff' || (version === '00' && more !== undefined)) return undefined;
  if (/^0+$/.test(traceId) || /^0+$/.test(spanId)) return undefined;
  return { traceId, spanId, traceFlags: Number.parseInt(flags, 16) & 1 };
}

export function formatTraceparent({ traceId, spanId, traceFlags }: TraceContext): string {
  return `00-${traceId}-${spanId}-0${traceFlags & 1}`;
}

/** Joins a traceparent and its tracestate with a space, the form in which a trace is passed within a service. */
export function joinTrace(traceparent: unknown, tracestate: unknown): string | undefined {
  if (typeof traceparent !== 'string') return undefined;
  const kept = typeof tracestate === 'string' && /^[\x20-\x7e]{1,512}$/.test(tracestate);
  return kept ? `${traceparent} ${tracestate}` : traceparent;
}

/** Splits a trace into the two parts that travel between services. */
export function splitTrace(trace: string): { traceparent: string; tracestate: string | undefined } {
  const space = trace.indexOf(' ');
  if (space < 0) return { traceparent: trace, tracestate: undefined };
  return { traceparent: trace.slice(0, space), tracestate: trace.slice(space + 1) };
}

export function traceAnnotations(trace: string): Record<string, string> {
  const { traceparent, tracestate } = splitTrace(trace);
  return {
    [TRACEPARENT_ANNOTATION]: traceparent,
    ...(tracestate === undefined ? {} : { [TRACESTATE_ANNOTATION]: tracestate }),
  };
}

export function annotatedTrace(annotations: Readonly<Record<string, string>> = {}): string | undefined {
  return joinTrace(annotations[TRACEPARENT_ANNOTATION], annotations[TRACESTATE_ANNOTATION]);
}
