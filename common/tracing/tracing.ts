import { describeError } from '../errors.ts';
import type { Logger } from '../logging.ts';
import type { Span, SpanOptions, Tracer } from './otel.ts';

export type { Span, SpanOptions, Tracer } from './otel.ts';

/**
 * Undefined while no endpoint for traces is configured: then nothing of OpenTelemetry is even loaded, and whoever would
 * trace has one comparison to make. Spans are passed on by their traceparent, explicitly, as request ids are.
 */
export let tracer: Tracer | undefined;

/** Longest wait for the last spans to be sent. */
const FLUSH_MS = 2_000;

/**
 * Begins to trace when OTEL_EXPORTER_OTLP_ENDPOINT (or …_TRACES_ENDPOINT) is set; further OTEL_EXPORTER_OTLP_… and
 * OTEL_TRACES_SAMPLER settings hold as OpenTelemetry defines them. Called once, before anything is served.
 */
export async function startTracing(service: string, logger: Logger, env = process.env): Promise<void> {
  const endpoint = env.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT || env.OTEL_EXPORTER_OTLP_ENDPOINT;
  if (!endpoint || env.OTEL_SDK_DISABLED === 'true') return;
  const { openTracer } = await import('./otel.ts');
  tracer = openTracer({ service, logger, env });
  logger.info({ endpoint: originOf(endpoint) }, 'sending traces');
}

/** Sends what is left and stops. */
export async function stopTracing(logger: Logger): Promise<void> {
  const open = tracer;
  tracer = undefined;
  await open
    ?.close(FLUSH_MS)
    .catch((error: unknown) => logger.warn(`cannot send the last spans: ${describeError(error)}`));
}

/**
 * Does work in a span that continues the parent's trace. Without a tracer, or without a trace to continue, only does the
 * work.
 * @param work is given the traceparent that continues the span
 */
export async function inSpan<T>(
  name: string,
  options: SpanOptions,
  work: (traceparent: string | undefined, span: Span | undefined) => Promise<T>,
): Promise<T> {
  if (!tracer || options.parent === undefined) return work(options.parent, undefined);
  const span = tracer.start(name, options);
  try {
    const result = await work(span.traceparent, span);
    span.end();
    return result;
  } catch (error) {
    span.end(error);
    throw error;
  }
}

function originOf(url: string): string {
  return URL.canParse(url) ? new URL(url).origin : 'unreadable';
}
