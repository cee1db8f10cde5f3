import { z } from 'zod';
import { baseShape, kubeShape, listenAddress, objectsShape } from '#common/config.ts';

const seconds = (fallback: number) => z.coerce.number().positive().max(86_400).default(fallback);

/** Settings of the operator, from its environment. */
export const operatorShape = {
  ...baseShape,
  ...kubeShape,
  ...objectsShape,
  /** Unique to the process. Default: host name, process id and something random. */
  SEMBLANCE_OPERATOR_IDENTITY: z.string().max(200).optional(),
  /** Where the control plane has live sessions allocated. */
  SEMBLANCE_OPERATOR_LISTEN: listenAddress.default({ host: '127.0.0.1', port: 0 }),
  /** host:port that it reaches this at. */
  SEMBLANCE_OPERATOR_ADVERTISE: z
    .string()
    .max(261)
    .regex(/^[^\s/]+:\d{1,5}$/, 'must be host:port')
    .optional(),
  /** RenderJobs worked on at once. */
  SEMBLANCE_OPERATOR_CONCURRENCY: z.coerce.number().int().min(1).max(512).default(64),
  /** How long the GpuAgent of a dead agent is kept. */
  SEMBLANCE_OPERATOR_AGENT_RETENTION_SECONDS: seconds(600),
  /** Leader election: how long others wait, how long the leader goes on without renewing, how often it renews. */
  SEMBLANCE_OPERATOR_LEASE_SECONDS: seconds(15),
  SEMBLANCE_OPERATOR_RENEW_DEADLINE_SECONDS: seconds(10),
  SEMBLANCE_OPERATOR_RENEW_SECONDS: seconds(2),
};
