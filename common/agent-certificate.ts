/**
 * Annotation of a GpuAgent: the certificate of its gRPC service in PEM, which the process made for itself. It is no
 * field of the status, because a cluster may have the resource definitions of an earlier release.
 */
export const CERTIFICATE_ANNOTATION = 'semblance.dev/certificate';

/** Returns the certificate that an agent states; undefined when it states none, as agents of earlier releases do. */
export function certificateOf(agent: {
  readonly metadata: { readonly annotations?: Readonly<Record<string, string>> };
}): string | undefined {
  return agent.metadata.annotations?.[CERTIFICATE_ANNOTATION] || undefined;
}
