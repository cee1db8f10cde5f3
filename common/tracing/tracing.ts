import { describeError } from '../errors.ts';
import type { Logger } from '../logging.ts';
import type { Span, SpanOptions, Tracer } from './otel.ts';

export type { Span, SpanOptions, Tracer } from './otel.ts';

/**
 * Undefined while no endpoint for traces is configured: then OpenTelemetry is not even loaded, and tracing code
 * makes only one comparison. Spans are passed on explicitly, by their traceparent, as request ids are.
 */
export let tracer: Tracer | undefined;

/** Longest time to send the last spans, in ms. */
const FLUSH_MS = 2_000;

/**
 * Starts tracing if OTEL_EXPORTER_OTLP_ENDPOINT (or …_TRACES_ENDPOINT) is set. Other OTEL_EXPORTER_OTLP_… and
 * OTEL_TRACES_SAMPLER settings work as OpenTelemetry defines them. Call it once, before the service serves
 * anything.
 */
export async function startTracing(service: string, logger: Logger, env = process.env): Promise<void> {
  const endpoint = env.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT || env.OTEL_EXPORTER_OTLP_ENDPOINT;
  if (!endpoint || env.OTEL_SDK_DISABLED === 'true') return;
  const { openTracer } = await import('./otel.ts');
  tracer = openTracer({ service, logger, env });
  logger.info({ endpoint: originOf(endpoint) }, 'sending traces');
}

/** Sends the remaining spans and stops tracing. */
export async function stopTracing(logger: Logger): Promise<void> {
  const open = tracer;
  tracer = undefined;
  await open
    ?.close(FLUSH_MS)
    .catch((error: unknown) => logger.warn(`cannot send the last spans: ${describeError(error)}`));
}

/**
 * Runs the work in a span that continues the parent's trace. Without a tracer, or without a parent, only runs the
 * work.
 * @param work receives the traceparent that continues the span
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
