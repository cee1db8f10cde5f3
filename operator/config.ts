import { baseShape, kubeShape, listenAddress, objectsShape } from '@semblance/common/config';
import { z } from 'zod';

const seconds = (fallback: number) => z.coerce.number().positive().max(86_400).default(fallback);

/** Such as `acc-1=2,acc-2=0.5`. */
const weights = z
  .string()
  .default('')
  .transform((text, context) => {
    const found = new Map<string, number>();
    for (const part of text.split(',').filter((each) => each.trim() !== '')) {
      const [account = '', value = ''] = part.split('=').map((each) => each.trim());
      const weight = Number(value);
      if (account === '' || value === '' || !(weight >= 0.001 && weight <= 1_000)) {
        context.addIssue({
          code: 'custom',
          message: `must be account=weight with commas between, not ${part}`,
        });
      } else found.set(account, weight);
    }
    return found;
  });

/** Settings of the operator, from its environment. */
export const operatorShape = {
  ...baseShape,
  ...kubeShape,
  ...objectsShape,
  /** Name unique to the process. Default: host name, process id and a random part. */
  SEMBLANCE_OPERATOR_IDENTITY: z.string().max(200).optional(),
  /** Address of the allocation service for the control plane. */
  SEMBLANCE_OPERATOR_LISTEN: listenAddress.default({ host: '127.0.0.1', port: 0 }),
  /** host:port at which the control plane reaches it. */
  SEMBLANCE_OPERATOR_ADVERTISE: z
    .string()
    .max(261)
    .regex(/^[^\s/]+:\d{1,5}$/, 'must be host:port')
    .optional(),
  /**
   * host:port of the control plane, of which texts are asked that RenderJobs name by digest. Unset: RenderJobs hold
   * them in clear.
   */
  SEMBLANCE_CONTROL_ADDRESS: z
    .string()
    .regex(/^.+:\d{1,5}$/, 'must be host:port')
    .optional(),
  /** RenderJobs that are processed at once. */
  SEMBLANCE_OPERATOR_CONCURRENCY: z.coerce.number().int().min(1).max(512).default(64),
  /** Weights of accounts that compete for slots; 1 for those not named. */
  SEMBLANCE_ACCOUNT_WEIGHTS: weights,
  /**
   * Which agent with free slots gets a job: with `spread` the one with the most, with `pack` the one with the
   * fewest.
   */
  SEMBLANCE_OPERATOR_PACKING: z.enum(['spread', 'pack']).default('spread'),
  /** How long the GpuAgent of a dead agent is kept, in seconds. */
  SEMBLANCE_OPERATOR_AGENT_RETENTION_SECONDS: seconds(600),
  /** Leader election: how long others wait, how long the leader goes on without renewing, how often it renews. */
  SEMBLANCE_OPERATOR_LEASE_SECONDS: seconds(15),
  SEMBLANCE_OPERATOR_RENEW_DEADLINE_SECONDS: seconds(10),
  SEMBLANCE_OPERATOR_RENEW_SECONDS: seconds(2),
};
