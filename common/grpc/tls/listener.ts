import { X509Certificate } from 'node:crypto';
import type { AddressInfo, Socket } from 'node:net';
import { createServer, type TLSSocket } from 'node:tls';
import {
  experimental,
  type Server,
  ServerCredentials,
  ServerInterceptingCall,
  type ServerInterceptor,
  status,
} from '@grpc/grpc-js';
import { createClientLog } from '../../client-log.ts';
import type { ListenAddress } from '../../config.ts';
import { CALLERS, type Component, nameOf } from './components.ts';
import type { Material } from './material.ts';
import type { Tls } from './tls.ts';

/** Time limit of a TLS handshake, in ms. A client that exceeds it is disconnected. */
const HANDSHAKE_MS = 10_000;
/** Shortest interval between two log lines for the same reason, in ms, against clients that retry endlessly. */
const QUIET_MS = 10_000;

export interface TlsListener {
  readonly port: number;
  /**
   * Accepts no new connections and cuts off unfinished handshakes. The gRPC server ends the connections that it was
   * given.
   */
  close(): void;
}

/**
 * Listens for a gRPC server and hands it the connections of clients whose certificate names a component that may
 * call this one. Other components of the installation get PERMISSION_DENIED for each call, so that they learn why.
 * A client without a certificate of the installation fails the handshake.
 */
export function listenTls(options: {
  readonly server: Server;
  readonly tls: Tls;
  readonly listen: ListenAddress;
}): Promise<TlsListener> {
  const { server, tls, listen } = options;
  const allowed = CALLERS[tls.component];
  const plain = ServerCredentials.createInsecure();
  const admitted = server.createConnectionInjector(plain);
  const refused = server.createConnectionInjector(
    experimental.createServerCredentialsWithInterceptors(plain, [refuseCalls(allowed)]),
  );
  const log = createClientLog(tls.logger, { lines: 1, everyMs: QUIET_MS });
  const tell = (kind: string, { remoteAddress }: TLSSocket, why: string) =>
    log.warn(kind, { remoteAddress }, `a client was refused: ${why}`);
  const listener = createServer({
    ...secureContext(tls.current),
    requestCert: true,
    rejectUnauthorized: true,
    // Both ends belong to one installation, so no older version is needed.
    minVersion: 'TLSv1.3',
    ALPNProtocols: ['h2'],
    handshakeTimeout: HANDSHAKE_MS,
    noDelay: true,
  });
  /** Connections that were not yet handed to a gRPC server. */
  const handshakes = new Map<string, Socket>();
  const idOf = ({ remoteAddress, remotePort }: Socket) => `${remoteAddress} ${remotePort}`;
  let closed = false;

  listener.on('connection', (socket: Socket) => {
    const id = idOf(socket);
    handshakes.set(id, socket);
    socket.once('close', () => {
      if (handshakes.get(id) === socket) handshakes.delete(id);
    });
  });
  listener.on('secureConnection', (socket: TLSSocket) => {
    handshakes.delete(idOf(socket));
    // An error of the connection ends its HTTP/2 session, which informs its calls.
    socket.on('error', () => {});
    if (closed) return void socket.destroy();
    const peer = new X509Certificate(socket.getPeerCertificate().raw);
    const known = allowed.some((component) =>
      peer.checkHost(nameOf(component), { subject: 'never', wildcards: false }),
    );
    if (!known) tell('denied', socket, `its certificate is for ${peer.subjectAltName ?? 'no name'}`);
    (known ? admitted : refused).injectConnection(socket);
  });
  listener.on('tlsClientError', (error: NodeJS.ErrnoException, socket: TLSSocket) => {
    const why = reasonOf(error, socket);
    if (why) tell(error.code ?? why, socket, why);
  });
  const unfollow = tls.onChange((material) => listener.setSecureContext(secureContext(material)));

  return new Promise((resolve, reject) => {
    listener.once('error', reject);
    listener.listen(listen.port, listen.host, () => {
      listener.off('error', reject);
      resolve({
        port: (listener.address() as AddressInfo).port,
        close() {
          closed = true;
          unfollow();
          listener.close();
          for (const socket of handshakes.values()) socket.destroy();
        },
      });
    });
  });
}

function secureContext({ certificate, key, authority }: Material) {
  return { cert: certificate, key, ca: authority };
}

function refuseCalls(allowed: readonly Component[]): ServerInterceptor {
  const details = `Of the components of this installation only ${allowed.join(', ') || 'none'} may call this service; the caller's certificate is for`;
  return (_method, call) =>
    new ServerInterceptingCall(call, {
      start(next) {
        next({
          onReceiveMetadata() {
            const named = call.getAuthContext().sslPeerCertificate?.subjectaltname ?? 'no name';
            call.sendStatus({ code: status.PERMISSION_DENIED, details: `${details} ${named}.` });
          },
        });
      },
    });
}

/** Returns why a handshake failed. Undefined: the client merely disconnected, as port probes do. */
function reasonOf(error: NodeJS.ErrnoException, socket: TLSSocket): string | undefined {
  // Node judges the certificate after the handshake proper, then closes the connection without an error of its own.
  const verdict: unknown = socket.authorizationError;
  if (verdict) return `its certificate is not accepted (${verdict})`;
  switch (error.code) {
    case 'ECONNRESET':
    case 'EPIPE':
      return undefined;
    case 'ERR_SSL_PEER_DID_NOT_RETURN_A_CERTIFICATE':
      return 'it presents no certificate';
    case 'ERR_SSL_WRONG_VERSION_NUMBER':
    case 'ERR_SSL_HTTP_REQUEST':
    case 'ERR_SSL_PACKET_LENGTH_TOO_LONG':
      return 'it does not speak TLS: is SEMBLANCE_TLS_DIR set there?';
    default:
      return error.message;
  }
}
