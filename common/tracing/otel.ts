import { randomUUID } from 'node:crypto';
import {
  type Attributes,
  createTraceState,
  DiagLogLevel,
  diag,
  type Span as OtelSpan,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { resourceFromAttributes } from '@opentelemetry/resources';
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  type Sampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import { ConfigError } from '../config.ts';
import { ApiError, describeError } from '../errors.ts';
import type { Logger } from '../logging.ts';
import { formatTraceparent, joinTrace, parseTraceparent, splitTrace } from './traceparent.ts';

export interface SpanOptions {
  readonly kind?: 'internal' | 'server' | 'client' | 'producer' | 'consumer';
  /** Trace context of the parent span, as `Span.traceparent`. Undefined: a new trace begins. */
  readonly parent?: string | undefined;
  /** Attributes, never with a secret, a key or a signed link. */
  readonly attributes?: Attributes;
  readonly startedAt?: Date;
}

/** Span of a piece of work under way. */
export interface Span {
  /**
   * Trace context that continues this span elsewhere: its traceparent, and the trace's tracestate if there is one
   * (see `joinTrace`).
   */
  readonly traceparent: string;
  readonly traceId: string;
  rename(name: string): void;
  set(attributes: Attributes): void;
  /** Ends the span. @param error why the work failed */
  end(error?: unknown): void;
}

export interface Tracer {
  start(name: string, options?: SpanOptions): Span;
  close(withinMs: number): Promise<void>;
}

const KINDS = {
  internal: SpanKind.INTERNAL,
  server: SpanKind.SERVER,
  client: SpanKind.CLIENT,
  producer: SpanKind.PRODUCER,
  consumer: SpanKind.CONSUMER,
} as const;

/** Shortest interval between two log lines of the exporter, in ms. */
const COMPLAIN_EVERY_MS = 60_000;

export interface TracerOptions {
  readonly service: string;
  readonly logger: Logger;
  readonly env: NodeJS.ProcessEnv;
}

/** Creates a tracer that sends OTLP over HTTP, in batches. Loaded only when traces are sent. @throws ConfigError */
export function openTracer({ service, logger, env }: TracerOptions): Tracer {
  complainTo(logger);
  const provider = new TracerProvider({
    sampler: samplerFor(env),
    resource: resourceFromAttributes({
      'service.namespace': 'semblance',
      'service.name': env.OTEL_SERVICE_NAME || `semblance-${service}`,
      'service.instance.id': randomUUID(),
    }),
    spanProcessors: [
      new BatchSpanProcessor({ exporter: new OTLPTraceExporter(), scheduledDelayMillis: 1_000 }),
    ],
  });
  const tracer = provider.getTracer('semblance');
  return {
    start(name, { kind = 'internal', parent, attributes, startedAt } = {}) {
      const { traceparent, tracestate } = splitTrace(parent ?? '');
      const above = parseTraceparent(traceparent);
      const context = above
        ? trace.setSpanContext(ROOT_CONTEXT, {
            ...above,
            isRemote: true,
            ...(tracestate ? { traceState: createTraceState(tracestate) } : {}),
          })
        : ROOT_CONTEXT;
      const options = { kind: KINDS[kind], ...(attributes ? { attributes } : {}) };
      return wrap(
        tracer.startSpan(name, { ...options, ...(startedAt ? { startTime: startedAt } : {}) }, context),
      );
    },
    async close(withinMs) {
      const late = new Promise<never>((_, reject) => {
        setTimeout(() => reject(new Error(`not within ${withinMs} ms`)), withinMs).unref();
      });
      await Promise.race([provider.shutdown(), late]);
    },
  };
}

function wrap(span: OtelSpan): Span {
  const context = span.spanContext();
  return {
    traceparent: joinTrace(formatTraceparent(context), context.traceState?.serialize()) ?? '',
    traceId: context.traceId,
    rename: (name) => void span.updateName(name),
    set: (attributes) => void span.setAttributes(attributes),
    end(error) {
      // A refusal is an answer, not a failure of the service that gives it.
      if (error instanceof ApiError && error.code !== 'internal_error')
        span.setAttribute('error.type', error.code);
      else if (error !== undefined)
        span.setStatus({ code: SpanStatusCode.ERROR, message: describeError(error).slice(0, 500) });
      span.end();
    },
  };
}

/**
 * Reads OTEL_TRACES_SAMPLER and its argument. Default: the decision that came with a trace applies, and all other
 * traces are kept.
 */
function samplerFor(env: NodeJS.ProcessEnv): Sampler {
  const name = env.OTEL_TRACES_SAMPLER || 'parentbased_always_on';
  const roots: Readonly<Record<string, () => Sampler>> = {
    always_on: () => new AlwaysOnSampler(),
    always_off: () => new AlwaysOffSampler(),
    traceidratio() {
      const ratio = Number(env.OTEL_TRACES_SAMPLER_ARG ?? '1');
      if (!(ratio >= 0 && ratio <= 1)) throw new ConfigError('OTEL_TRACES_SAMPLER_ARG must be from 0 to 1');
      return new TraceIdRatioBasedSampler(ratio);
    },
  };
  const root = roots[name.replace(/^parentbased_/, '')]?.();
  if (!root) throw new ConfigError(`OTEL_TRACES_SAMPLER: there is no sampler "${name}"`);
  return name.startsWith('parentbased_') ? new ParentBasedSampler({ root }) : root;
}

function complainTo(logger: Logger): void {
  let complainedAt = Number.NEGATIVE_INFINITY;
  const complain = (message: string) => {
    if (performance.now() - complainedAt < COMPLAIN_EVERY_MS) return;
    complainedAt = performance.now();
    logger.warn(`cannot export traces: ${message.slice(0, 500)}`);
  };
  const quiet = () => {};
  diag.setLogger(
    { error: complain, warn: complain, info: quiet, debug: quiet, verbose: quiet },
    DiagLogLevel.WARN,
  );
}
