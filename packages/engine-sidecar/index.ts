import type { Engine } from '@semblance/engine-api/engine';
import { EngineInterruptedError } from '@semblance/engine-api/engine';
import type { FactoryOptions } from '@semblance/engine-api/factory-options';
import type { SidecarInfo } from './answers.ts';
import { connect, SIDECAR_TIMES, type SidecarTimes } from './connection.ts';
import { createExchange } from './exchange.ts';
import { inspectBySidecar } from './inspect-call.ts';
import { renderBySidecar } from './render-call.ts';

/**
 * Creates the client of an engine that is a separate program on a Unix socket (proto/semblance/engine/v1).
 *
 * The client lives as long as one connection. When the sidecar goes, the client has `ended`, and its host starts
 * another one, which waits for the sidecar to come back. So a missing sidecar is handled like a crashed engine
 * process.
 * @param hopeless errors of the start after which the client does not try again; default: none
 */
export function createSidecarEngine(
  options: FactoryOptions,
  times: SidecarTimes = SIDECAR_TIMES,
  hopeless?: (error: unknown) => boolean,
): Engine {
  const socket = options.settings?.socket;
  if (!socket) throw new Error('a sidecar needs the path of its socket');
  const connection = connect(socket, times);
  const exchange = createExchange(socket);
  const closing = new AbortController();
  const { promise: ended, resolve } = Promise.withResolvers<string>();
  let over = false;
  const end = (reason: string) => {
    over = true;
    resolve(reason);
  };
  let info: SidecarInfo | undefined;
  const known = () => {
    if (!info) throw new Error('the sidecar is not known before it is warm');
    return info;
  };

  /** Returns a request that ends with this client. */
  const alive = <Request extends { readonly signal: AbortSignal }>(request: Request): Request => {
    if (!info || over || closing.signal.aborted)
      throw new EngineInterruptedError('there is no connection to the sidecar');
    return { ...request, signal: AbortSignal.any([request.signal, closing.signal]) };
  };
  const parts = { connection, exchange, times, onStuck: end };

  const engine: Engine = {
    get name() {
      return known().name;
    },
    get version() {
      return known().version;
    },
    get capabilities() {
      return known().capabilities;
    },
    get concurrency() {
      return known().concurrency;
    },
    get vramMib() {
      return known().vramMib;
    },
    ended,
    async warmUp(signal) {
      const either = AbortSignal.any([signal, closing.signal]);
      if (info) return connection.warmAgain(either);
      const warm = await connection.warm(either, hopeless);
      await exchange.clear();
      info = warm;
      if (warm.inspects) engine.inspect = async (request) => inspectBySidecar(alive(request), parts);
      void connection.lost(closing.signal).then((reason) => reason !== undefined && end(reason));
    },
    async render(request) {
      return renderBySidecar(alive(request), parts);
    },
    async close() {
      closing.abort(new EngineInterruptedError('the connection to the sidecar was closed'));
      connection.close();
      await exchange.clear();
    },
  };
  return engine;
}
